import Foundation
import Testing

@testable import OAuth

@Suite("Hostile messages")
struct HostileMessageTests {
  /// Each message in good form, and what reads it.
  static let readers: [(String, @Sendable (HTTPResponse) -> Bool)] = [
    (
      #"{"device_code":"d","user_code":"u","verification_uri":"https://x.example","expires_in":9,"interval":5}"#,
      { (try? DeviceAuthorizationResponse.parse($0)) != nil }
    ),
    (#"{"active":true,"scope":"a"}"#, { (try? IntrospectionResponse.parse($0)) != nil }),
    (
      #"{"client_id":"c","client_secret":"s","client_secret_expires_at":9}"#,
      { (try? ClientRegistration.parse($0)) != nil }
    ),
    (
      #"{"access_token":"a","token_type":"N_A","issued_token_type":"t","expires_in":9}"#,
      { (try? TokenResponse.parseExchange($0, quirks: GrantTypeTests.quirks)) != nil }
    ),
    (
      "logout_token=" + Signed.make(LogoutTokenTests.claims).exposed,
      { response in
        let token = try? LogoutToken.parse(form: response.body)
        return (try? token?.verify(Signed.checks(), keys: Signed.keys)) != nil
      }
    ),
    (
      Signed.make(JARMTests.claims).exposed,
      { response in
        let text = Secret(String(decoding: response.body, as: UTF8.self))
        return (try? JARM.parse(text, checks: Signed.checks(), keys: Signed.keys)) != nil
      }
    ),
    (
      #"DPoP error="use_dpop_nonce", algs="ES256", Bearer realm="x\"y""#,
      { response in
        let challenge = String(decoding: response.body, as: UTF8.self)
        return HTTPResponse(status: 401, headers: [.init("WWW-Authenticate", challenge), .init("DPoP-Nonce", "n")])
          .asksForDPoPNonce
      }
    ),
  ]

  @Test("an altered message never traps, and an altered signature is never taken", arguments: readers.indices)
  func altered(index: Int) {
    let (good, read) = Self.readers[index]
    let status = index == 2 ? 201 : 200
    #expect(read(answer(good, status: status)))
    var generator = Seeded(state: UInt64(index))
    for _ in 0..<1500 {
      var bytes = Array(good.utf8)
      for _ in 0..<Int.random(in: 1...3, using: &generator) {
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: bytes[place] = UInt8.random(in: 0...255, using: &generator)
        case 1: bytes.remove(at: place)
        default: bytes.insert(bytes[place], at: place)
        }
      }
      let response = HTTPResponse(
        status: status, headers: [.init("Content-Type", "application/json")], body: Data(bytes))
      let taken = read(response)
      // All of it is under the signature, or is the signature; what is not is the form around it.
      if index == 4 || index == 5, bytes != Array(good.utf8) {
        #expect(!taken, "\(String(decoding: bytes, as: UTF8.self))")
      }
    }
  }
}
