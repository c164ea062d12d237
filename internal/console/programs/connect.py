import base64, hashlib, http.server, json, secrets, sys, urllib.error, urllib.parse, urllib.request, webbrowser

ISSUER = "https://127.0.0.1:8443/oauth2/api"
CLIENT_ID = "python-app"

_issuer = urllib.parse.urlsplit(ISSUER)
with urllib.request.urlopen(f"https://{_issuer.netloc}/.well-known/oauth-authorization-server{_issuer.path}") as _answer:
    METADATA = json.load(_answer)


class Login:
    """One login: where to send the browser, and what to do with what it brings back."""

    def __init__(self, client_id, redirect_uri, scope):
        self.client_id, self.redirect_uri = client_id, redirect_uri
        self.state, self.verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()
        self.url = METADATA["authorization_endpoint"] + "?" + urllib.parse.urlencode({
            "response_type": "code", "client_id": client_id, "redirect_uri": redirect_uri, "scope": scope, "state": self.state,
            "code_challenge": challenge, "code_challenge_method": "S256",
        })

    def finish(self, callback_url):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(callback_url).query))
        if query.get("state") != self.state or query.get("iss") != ISSUER:
            raise ValueError("not the answer to this login")
        if "error" in query:
            raise ValueError(query["error"])
        return request_tokens(client_id=self.client_id, grant_type="authorization_code", code=query["code"],
                              redirect_uri=self.redirect_uri, code_verifier=self.verifier)


def request_tokens(**form):
    try:
        with urllib.request.urlopen(METADATA["token_endpoint"], urllib.parse.urlencode(form).encode()) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise ValueError(f"{error.code} {error.read().decode()}") from None


def user_of(pair):
    """Who has signed in (OpenID Connect). Know the user by sub, and show the name."""
    request = urllib.request.Request(METADATA["userinfo_endpoint"], headers={"Authorization": "Bearer " + pair["access_token"]})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main():
    callback = []

    class Callback(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if urllib.parse.urlsplit(self.path).path == "/callback":
                callback.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"You can close this window.")

        def log_message(self, *_):  # the address holds the code
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Callback)
    login = Login(CLIENT_ID, f"http://127.0.0.1:{server.server_port}/callback", "openid profile")
    print("opening", login.url, flush=True)
    webbrowser.open(login.url)
    while not callback:
        server.handle_request()
    pair = login.finish(callback[0])
    print("signed in as", user_of(pair)["name"], flush=True)
    pair = request_tokens(client_id=CLIENT_ID, grant_type="refresh_token", refresh_token=pair["refresh_token"])
    print("refreshed for", pair["expires_in"], "seconds", flush=True)


if __name__ == "__main__":
    sys.exit(main())
