#!/usr/bin/env python3
"""Runs a command for each account that requires a login, with the account and the next step as its last two arguments.

    notify.py notify-send --app-name=grantd
"""

import subprocess
import sys
import time

import grantd

PAUSE_SECONDS = 5
COMMAND_SECONDS = 60


def notify(account, hint, notified):
    if account not in notified:
        notified.add(account)
        subprocess.run([*sys.argv[1:], f"{account}: login required", hint], check=False, timeout=COMMAND_SECONDS)


def watch(client, notified):
    # First the subscription, then the list: no change is between them.
    events = client.events(["login.required", "login.completed", "account.removed"])
    for account in client.accounts():
        if account["state"] == "login_required":
            name, provider = account["account"], account["provider"]
            notify(name, f"Sign in with `grantctl login {provider} {name}`.", notified)
    for event in events:
        if event["type"] == "login.required":
            notify(event["account"], event.get("hint", ""), notified)
        else:
            notified.discard(event.get("account"))


def main():
    with grantd.Client() as client:
        notified = set()
        while True:
            try:
                watch(client, notified)
            except grantd.GrantdError as error:
                # The broker restarts, or is stopped.
                print(f"notify: {error}", file=sys.stderr)
                time.sleep(PAUSE_SECONDS)


main()
