#!/usr/bin/env python3
"""Register a client at a running glewlwyd, or change one, through its admin API. Stdlib only.

  register_client.py --dir DIR [--client-id native-public] --redirect-uri URL [--redirect-uri URL …] [--secret SECRET]

DIR is what start.py was given: its info.json has the address and the admin key. The URIs are added to those the client
has; a client that does not exist is made, public unless --secret is given. glewlwyd compares redirect URIs exactly, the
port included, so this is how a callback at a port chosen late becomes known. Prints the client as JSON.
"""
import argparse
import json
import sys
import urllib.error
import urllib.parse
import urllib.request


def main():
    ap = argparse.ArgumentParser(description="Register redirect URIs at glewlwyd.")
    ap.add_argument("--dir", required=True)
    ap.add_argument("--client-id", default="native-public")
    ap.add_argument("--redirect-uri", action="append", required=True, metavar="URL")
    ap.add_argument("--secret", help="makes a new client confidential (client_secret_basic and client_secret_post)")
    args = ap.parse_args()
    with open(args.dir + "/info.json") as file:
        info = json.load(file)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(method, path, body=None):
        request = urllib.request.Request(
            info["base"] + path, method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": "token " + info["admin_api_key"]})
        with opener.open(request, timeout=15) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    path = "/api/client/" + urllib.parse.quote(args.client_id, safe="")
    try:
        try:
            client = call("GET", path)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            client = None
        if client is None:
            client = {
                "client_id": args.client_id, "name": args.client_id, "enabled": True, "redirect_uri": args.redirect_uri,
                "authorization_type": ["code", "refresh_token", "delete_token"], "confidential": args.secret is not None,
                "token_endpoint_auth_method": ["client_secret_basic", "client_secret_post"] if args.secret else ["none"]}
            if args.secret:
                client["client_secret"] = args.secret
            call("POST", "/api/client/", client)
        else:
            client["redirect_uri"] += [uri for uri in args.redirect_uri if uri not in client["redirect_uri"]]
            call("PUT", path, client)
        print(json.dumps(call("GET", path)))
    except urllib.error.HTTPError as error:
        sys.exit(f"glewlwyd refused the client: {error.code} {error.read()[:500]!r}")
    except OSError as error:
        sys.exit(f"no connection: {error}")


main()
