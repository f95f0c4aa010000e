import DemoProvider
import Foundation
import NIOHTTP1

// Authorization requests, the end of sessions and registration.
extension Refusal {
  static let requests: [Refusal] = [
    .init("a used pushed request", 400, nil) { _, client in
      let uri = await push(client)?.json?["request_uri"]?.string
      _ = await use(uri, client)
      return await use(uri, client)
    },
    .init("another client's pushed request", 400, nil, with: hasTwoClients) { _, client in
      await use(await push(client)?.json?["request_uri"]?.string, client, id: "other")
    },
    .init(
      "a request that is not pushed", 303, "invalid_request", with: { $0.settings.authorization.requirePAR = true }
    ) { _, client in await client.authorize() },
    .init(
      "a request that is not signed", 303, "invalid_request",
      with: { $0.settings.authorization.requireRequestObject = true }
    ) { _, client in await client.authorize() },
    .init(
      "a request without a nonce", 303, "invalid_request", with: { $0.settings.authorization.nonceRequired = true }
    ) { _, client in await client.authorize(["nonce": nil]) },
    .init("a long state", 303, "invalid_request", with: { $0.settings.authorization.maxState = 6 }) { _, client in
      await client.authorize()
    },
    .init("an address of another site after logout", 400, nil) { _, client in
      let hint = await client.signIn().id
      return await client.send(
        .GET, "/end_session?id_token_hint=\(hint)&post_logout_redirect_uri=https://evil.example/")
    },
    .init("an address after logout without a client", 400, nil) { _, client in
      await client.send(.GET, "/end_session?post_logout_redirect_uri=http://127.0.0.1:1/bye")
    },
    .init("a changed hint at logout", 400, nil) { _, client in
      await client.send(.GET, "/end_session?id_token_hint=\(await client.signIn().id)x")
    },
    .init("a signed request of another key", 303, "invalid_request_object", with: signsRequests) { _, client in
      await client.authorize(["request": object(TestKey(), client, [:])])
    },
    .init("a signed request that is no JWT", 400, "invalid_request_object", with: signsRequests) { _, client in
      await push(client, ["request": "x"])
    },
  ]

  private static let requestChanges: [([String: String?], String)] = [
    (["response_type": "token"], "unsupported_response_type"), (["code_challenge": nil], "invalid_request"),
    (["code_challenge_method": "plain"], "invalid_request"), (["code_challenge_method": nil], "invalid_request"),
    (["login_hint": "deny"], "access_denied"), (["login_hint": "mallory"], "access_denied"),
  ]

  static let wrongRequests: [Refusal] = requestChanges.map { changes, error in
    Refusal("a request with \(text(changes))", 303, error) { _, client in await client.authorize(changes) }
  }

  private static func push(_ client: TestClient, _ changes: [String: String?] = [:]) async -> Answer? {
    await client.send(.POST, "/par", form: client.authorizationRequest(changes))
  }

  private static func use(_ uri: String?, _ client: TestClient, id: String = "demo") async -> Answer? {
    await client.send(.GET, "/authorize?" + TestClient.encode(["client_id": id, "request_uri": uri ?? ""]))
  }

  private static let pushChanges: [([String: String?], Int, String)] = [
    (["response_type": "token"], 400, "unsupported_response_type"), (["code_challenge": nil], 400, "invalid_request"),
    (["redirect_uri": "https://evil.example/"], 400, "invalid_request"), (["client_id": "x"], 401, "invalid_client"),
    (["request_uri": "urn:x"], 400, "invalid_request"),
  ]

  static let wrongPushes: [Refusal] = pushChanges.map { changes, status, error in
    Refusal("a push with \(text(changes))", status, error) { _, client in await push(client, changes) }
  }

  // MARK: Signed requests

  private static let objectChanges: [[String: JSON]] = [
    ["aud": "https://elsewhere.example"], ["iss": "other"], ["client_id": "other"], ["exp": 1], ["request": "x"],
    ["aud": .null],
  ]

  private static let signsRequests: Change = {
    $0.clients = [.init(id: "demo", keys: [key.jwk], authenticationMethod: "none")]
  }

  static let wrongObjects: [Refusal] = objectChanges.map { changes in
    Refusal(
      "a signed request with \(JSON.object(changes).text)", 303, "invalid_request_object", with: signsRequests
    ) { _, client in await client.authorize(["request": object(key, client, changes)]) }
  }

  private static func object(_ key: TestKey, _ client: TestClient, _ changes: [String: JSON]) -> String {
    var claims: [String: JSON] = client.authorizationRequest().mapValues { .string($0) }
    claims["iss"] = "demo"
    claims["aud"] = .string(client.server.issuer)
    claims["exp"] = .int(Int(TestClock.now.timeIntervalSince1970) + 60)
    return key.jwt(claims.merging(changes) { $1 }, header: ["typ": "oauth-authz-req+jwt"])
  }

  // MARK: Registration

  private static let metadataChanges: [(JSON, String)] = [
    ([], "invalid_client_metadata"), ([:], "invalid_redirect_uri"),
    (["redirect_uris": ["no uri"]], "invalid_redirect_uri"),
    (["redirect_uris": ["https://x.example/#f"]], "invalid_redirect_uri"),
    (["redirect_uris": ["https://x.example/"], "token_endpoint_auth_method": "magic"], "invalid_client_metadata"),
  ]

  static let wrongMetadata: [Refusal] = metadataChanges.map { metadata, error in
    Refusal("a registration with \(metadata.text)", 400, error) { _, client in
      await client.send(.POST, "/register", json: metadata)
    }
  }

  static let registrations: [Refusal] = [
    .init("another registration access token", 401, nil) { _, client in
      let metadata: JSON = ["redirect_uris": ["http://127.0.0.1/callback"]]
      let url = await client.send(.POST, "/register", json: metadata)?.json?["registration_client_uri"]?.string
      return await client.send(.GET, url ?? "/nowhere", headers: ["Authorization": "Bearer guess"])
    },
    .init(
      "a registration without the initial access token", 401, nil, with: { $0.settings.registration.token = "first" }
    ) { _, client in
      await client.send(.POST, "/register", json: ["redirect_uris": ["http://127.0.0.1/callback"]])
    },
  ]
}
