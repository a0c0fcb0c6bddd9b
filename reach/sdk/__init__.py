"""What a program uses: a client that sends, an agent that handles. The public names are in `reach`."""
