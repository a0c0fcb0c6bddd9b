"""stub"""


def main(seeds: int = 3) -> None:
    print(seeds)
