"""Notifications: what happened to Bundles and rules, told to chats, mailboxes and webhooks."""
