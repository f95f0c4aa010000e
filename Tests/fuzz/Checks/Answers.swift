import Foundation

@testable import OAuth

extension Target {
  /// An answer of each endpoint beside the token endpoint: read or refused, and never a trap.
  static let answers = Target(name: "answers", longest: 4096) { bytes in
    let response = response(bytes)
    try read {
      let device = try DeviceAuthorizationResponse.parse(response)
      try expect(
        response.status == 200 && !device.deviceCode.isEmpty && !device.userCode.isEmpty, "a device of nothing")
      try expect(DeviceAuthorizationResponse.intervals.contains(device.interval), "an interval of \(device.interval)")
      try expectSayable(device.userCode)
      try expectSayable(device.verificationURI)
    }
    try read {
      let pushed = try PushedAuthorizationResponse.parse(response)
      try expect(
        [200, 201].contains(response.status) && !pushed.requestURI.isEmpty && pushed.expiresIn > .zero,
        "a push of nothing")
    }
    try read {
      _ = try IntrospectionResponse.parse(response)
      try expect(response.status == 200, "an introspection at \(response.status)")
    }
    try read {
      let client = try ClientRegistration.parse(response)
      try expect(!client.clientID.isEmpty && [200, 201].contains(response.status), "a client of nothing")
      try expectSayable(client.clientID)
      if let url = client.management?.url { try expect(url.scheme == "https" || url.host != nil, "managed at \(url)") }
    }
    try read {
      let tokens = try TokenResponse.parseExchange(response, quirks: TokenResponseQuirks())
      try expect(tokens.issuedTokenType?.isEmpty == false, "an exchange of no type")
    }
    try read { _ = try ClientRegistration.Management.isDeleted(response) }
    if let nonce = response.dpopNonce { try expect(nonce.utf8.count <= HTTPResponse.longestNonce, "a nonce too long") }
    try expect(!response.asksForDPoPNonce || response.dpopNonce != nil, "a nonce is asked for and not given")
    try expect(response.challenges.count <= 8192, "too many challenges")
  }

  /// Signed messages other than ID tokens, without the provider's key: all are refused.
  static let signed = Target(name: "signed", longest: 2048) { bytes in
    guard let choice = bytes.first else { return }
    let rest = Data(bytes.dropFirst())
    let header = Data(#"{"alg":"ES256","typ":"logout+jwt"}"#.utf8)
    let compact: Secret
    switch choice {
    case UInt8(ascii: "f"):
      if case .failure(let error) = Result(catching: { () throws(LogoutTokenError) in try LogoutToken.parse(form: rest)
      }) {
        try expectSayable(error.description)
      }
      return
    case UInt8(ascii: "t"): compact = Secret(decoded(rest))
    default: compact = Secret([header, rest, Data("signature".utf8)].map { base64URL($0) }.joined(separator: "."))
    }
    let checks = JWTChecks(issuer: issuer, clientID: "client", algorithms: ["ES256", "HS256"], now: now)
    guard let keys = JWKSet(Data(#"{"keys":[]}"#.utf8)) else { return }
    if let state = JARM.claimedState(compact) {
      try expect(state.exposed.utf8.count <= AuthorizationResponse.longestState, "a state of any length")
    }
    switch Result(catching: { () throws(JARMError) in try JARM.parse(compact, checks: checks, keys: keys) }) {
    case .success: throw Broken(description: "an unsigned answer is accepted")
    case .failure(let error): try expectSayable(error.description)
    }
    do throws(LogoutTokenError) {
      try LogoutToken.parse(compact).verify(checks, keys: keys)
    } catch {
      return try expectSayable(error.description)
    }
    throw Broken(description: "an unsigned logout token is accepted")
  }

  /// Reads the input; each refusal has a message.
  private static func read(_ body: () throws -> Void) throws {
    do {
      try body()
    } catch let error as ResponseError {
      try expectSayable(error.description)
    }
  }
}
