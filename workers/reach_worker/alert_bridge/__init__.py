"""The role `alert-bridge`: what Alertmanager tells goes on to chats. It needs no Redis, since that may be what an alert is about."""
