import Foundation
import Testing

@testable import OAuth

@Suite("Device grant")
struct DeviceTests {
  static let endpoint = URL(string: "https://id.example/device")!

  @Test("49. Device grant (8628): the request names client and scopes, however the client authenticates")
  func request() throws {
    let request = DeviceAuthorizationRequest(
      scopes: ["a", "b"], resources: ["x:1"], extraParameters: [Parameter("audience", "z"), Parameter("scope", "no")])
    let key = try KeyFiles.read(KeyFiles.ed25519)
    let clients: [ClientAuthentication] = [
      .none, .post(secret: Secret("s")), .basic(secret: Secret("s"), encoding: .form), .mutualTLS,
      .assertion(key: key, audience: "aud"),
    ]
    for client in clients {
      let sent = request.httpRequest(to: Self.endpoint, clientID: "id", client: client, scopeSeparator: ",")
      var expected = ["client_id": "id", "scope": "a,b", "resource": "x:1", "audience": "z"]
      if case .post = client { expected["client_secret"] = "s" }
      #expect(sent.form == expected && sent.purpose == .device && sent.method == "POST")
    }
  }

  static let good = #""device_code":"dc","user_code":"WDJB-MJHT","verification_uri":"https://id.example/device""#

  func parse(_ body: String) throws -> DeviceAuthorizationResponse {
    try DeviceAuthorizationResponse.parse(answer(body))
  }

  @Test(
    "49. interval 5 by default; a server's value is limited",
    arguments: [
      ("", 5), (#","interval":1"#, 1), (#","interval":7.5"#, 7.5), (#","interval":"9""#, 9), (#","interval":0"#, 1),
      (#","interval":-3"#, 1), (#","interval":86400"#, 300), (#","interval":null"#, 5), (#","interval":1e300"#, 300),
    ])
  func interval(member: String, seconds: Double) throws {
    let found = try parse(#"{\#(Self.good),"expires_in":1800\#(member)}"#)
    #expect(found.interval == .milliseconds(Int64(seconds * 1000)) && found.expiresIn == .seconds(1800))
    #expect(found.deviceCode.exposed == "dc" && found.userCode == "WDJB-MJHT")
    #expect(found.verificationURI == "https://id.example/device" && found.verificationURIComplete == nil)
  }

  @Test(
    "49. older members are taken too, and a complete URI that cannot be used is none",
    arguments: [
      (#""verification_uri_complete":"https://id.example/d?c=1""#, "https://id.example/d?c=1"),
      (#""verification_url_complete":"http://127.0.0.1:8080/d""#, "http://127.0.0.1:8080/d"),
      (#""verification_uri_complete":"javascript:alert(1)""#, nil), (#""verification_uri_complete":7"#, nil),
      (#""verification_uri_complete":"https://u:p@id.example""#, nil),
    ] as [(String, String?)])
  func older(member: String, complete: String?) throws {
    let body = #"{"device_code":"dc","user_code":"u","verification_url":"https://g.co/d","expires_in":"60",\#(member)}"#
    let found = try parse(body)
    #expect(found.verificationURI == "https://g.co/d" && found.expiresIn == .seconds(60))
    #expect(found.verificationURIComplete == complete)
  }

  @Test(
    "49. an answer that cannot be shown to a user is refused",
    arguments: [
      "[]", "{}", #"{\#(good)}"#, #"{\#(good),"expires_in":0}"#, #"{\#(good),"expires_in":-1}"#,
      #"{\#(good),"expires_in":true}"#, #"{\#(good),"expires_in":1,"interval":"soon"}"#,
      #"{"device_code":"","user_code":"u","verification_uri":"https://x.example","expires_in":1}"#,
      #"{"device_code":"d","user_code":"","verification_uri":"https://x.example","expires_in":1}"#,
      #"{"device_code":"d","user_code":"a\u001b[2J","verification_uri":"https://x.example","expires_in":1}"#,
      #"{"device_code":"d","user_code":"\#(String(repeating: "u", count: 65))","verification_uri":"https://x.example","expires_in":1}"#,
      #"{"device_code":"d","user_code":"u","expires_in":1}"#,
      #"{"device_code":"d","user_code":"u","verification_uri":"javascript:x","expires_in":1}"#,
      #"{"device_code":"d","user_code":"u","verification_uri":"https://","expires_in":1}"#,
      #"{"device_code":"d","user_code":"u","verification_uri":"/device","expires_in":1}"#,
      #"{"device_code":"d","user_code":"u","verification_uri":"https://x.example/\u001b","expires_in":1}"#,
      #"{"device_code":"d","user_code":"u","verification_uri":"https://x.example/\u202e","expires_in":1}"#,
      #"{"device_code":"d","user_code":"u","verification_uri":"https://x.example/\#(String(repeating: "u", count: 2048))","expires_in":1}"#,
    ])
  func refused(body: String) {
    let error = thrown { () throws(ResponseError) in _ = try DeviceAuthorizationResponse.parse(answer(body)) }
    guard case .nonConforming? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  @Test("49. a refusal at the device endpoint is reported with its text, at 200 and at 4xx")
  func refusal() {
    for status in [200, 400, 401] {
      let response = answer(#"{"error":"unauthorized_client"}"#, status: status)
      #expect(throws: ResponseError.oauth(OAuthError(code: .unauthorizedClient), status: status, retryAfter: nil)) {
        try DeviceAuthorizationResponse.parse(response)
      }
    }
    #expect(throws: ResponseError.redirect(status: 302)) {
      try DeviceAuthorizationResponse.parse(answer("", status: 302))
    }
  }

  func next(
    _ body: String, status: Int = 400, type: String = "application/json", retryAfter: String? = nil,
    interval: Duration = .seconds(5)
  ) -> DevicePoll? {
    let headers = retryAfter.map { [HTTPRequest.Header("Retry-After", $0)] } ?? []
    let response = answer(body, status: status, type: type, headers: headers)
    let error = thrown { () throws(ResponseError) in _ = try TokenResponse.parse(response, quirks: .init()) }
    return error.map { DevicePoll.next($0, interval: interval) }
  }

  @Test("49. `slow_down` adds 5 permanently; `authorization_pending` continues")
  func slowDown() {
    var interval = Duration.seconds(5)
    for expected in [10, 15, 20] {
      guard case .slowDown(let longer)? = next(#"{"error":"slow_down"}"#, interval: interval) else {
        Issue.record("slow_down is not heard")
        return
      }
      #expect(longer == .seconds(expected))
      interval = longer
      #expect(next(#"{"error":"authorization_pending"}"#, interval: interval) == .pending(interval))
    }
    #expect(next(#"{"error":"slow_down"}"#, interval: .seconds(300)) == .slowDown(.seconds(300)))
    #expect(next(#"{"error":"slow_down"}"#, status: 429, retryAfter: "30") == .slowDown(.seconds(30)))
    #expect(next(#"{"error":"slow_down"}"#, retryAfter: "3") == .slowDown(.seconds(10)))
    #expect(next(#"{"error":"slow_down"}"#, retryAfter: "86400") == .slowDown(.seconds(300)))
    #expect(next(#"{"error":"authorization_pending"}"#, retryAfter: "86400") == .pending(.seconds(300)))
    #expect(next(#"{"error":"authorization_pending"}"#, status: 428) == .pending(.seconds(5)))
    #expect(next(#"{"error":"authorization_pending"}"#, status: 200) == .pending(.seconds(5)))
    #expect(next(#"{"error":"authorization_pending"}"#, retryAfter: "9") == .pending(.seconds(9)))
  }

  @Test(
    "49. `expired_token`, `access_denied` stop",
    arguments: [
      (#"{"error":"expired_token"}"#, 400, .expired), (#"{"error":"invalid_grant"}"#, 400, .expired),
      ("", 404, .expired), ("<html>", 404, .expired), ("", 410, .expired),
      (
        #"{"error":"access_denied","error_description":"no"}"#, 403,
        .denied(OAuthError(code: .accessDenied, description: "no"))
      ),
    ] as [(String, Int, DevicePoll)])
  func ends(body: String, status: Int, poll: DevicePoll) {
    #expect(next(body, status: status) == poll)
  }

  @Test("49. permanent errors stop as well", arguments: ["invalid_client", "unauthorized_client", "strange"])
  func failed(code: String) {
    guard case .failed(.oauth(let error, 400, nil))? = next(#"{"error":"\#(code)"}"#) else {
      Issue.record("\(code) goes on")
      return
    }
    #expect(error.code.rawValue == code)
    for (body, status) in [("", 400), ("", 403), ("{}", 200)] {
      guard case .failed(.nonConforming)? = next(body, status: status) else {
        Issue.record("\(status) goes on")
        return
      }
    }
  }

  @Test(
    "49. a network error backs off",
    arguments: [
      ("", 500, "", nil, 10), (#"{"error":"authorization_pending"}"#, 503, "application/json", nil, 10),
      ("<html>", 200, "text/html", nil, 10), ("<html>", 400, "text/html", nil, 10), ("", 429, "", "40", 40),
      ("", 503, "", "1", 5), ("", 408, "", nil, 10), ("", 302, "", nil, 10),
      (#"{"error":"temporarily_unavailable"}"#, 400, "application/json", "7", 7),
      (#"{"error":"rate_limited"}"#, 429, "application/json", nil, 10),
    ] as [(String, Int, String, String?, Int)])
  func backOff(body: String, status: Int, type: String, wait: String?, seconds: Int) {
    guard case .backOff(.seconds(seconds), let error) = next(body, status: status, type: type, retryAfter: wait) else {
      Issue.record("it does not back off")
      return
    }
    #expect(error.description.contains("HTTP \(status)"))
  }

  @Test(
    "49. without any answer the wait doubles, up to a minute, and is never shorter than the interval",
    arguments: [(5, 0, 10), (5, 1, 10), (5, 2, 20), (5, 4, 60), (5, 1000, 60), (90, 3, 90), (1, 1, 2)])
  func silence(interval: Int, failures: Int, wait: Int) {
    #expect(DevicePoll.afterSilence(interval: .seconds(interval), failures: failures) == .seconds(wait))
  }
}
