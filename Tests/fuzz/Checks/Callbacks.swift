import Foundation
import Grants

@testable import OAuth
@testable import Providers

extension Target {
  /// A redirect URI in the first line, and behind it the address that a browser or an app brought back: loopback, custom
  /// schemes with one slash or none, fragments.
  static let callback = Target(name: "callback", longest: 2048) { bytes in
    let first = bytes.prefix { $0 != 0x0A }
    let address = decoded(bytes.dropFirst(first.count + 1))
    for text in [decoded(first), "http://127.0.0.1:4711/callback", "com.example.app:/back"] {
      switch Result(catching: { () throws(RedirectURIError) in try RedirectURI(text) }) {
      case .success(let uri): try checkMatch(uri, address)
      case .failure(let error): try expectSayable(error.description)
      }
    }
    try checkReading(address)
    try checkCode(address)
    try checkFragment(address)
  }

  private static func checkMatch(_ uri: RedirectURI, _ address: String) throws {
    try expect(uri.matches(uri.rawValue), "\(uri) does not match itself")
    let isQueried = uri.rawValue.utf8.contains(UInt8(ascii: "?"))
    let answer = uri.rawValue + (isQueried ? "&" : "?") + "code=1&state=2"
    try expect(uri.matches(answer), "\(answer) does not match \(uri)")
    if uri.isLoopback {
      let moved = uri.replacingPort(4712)
      try expect(moved.port == 4712 && moved.host == uri.host && moved.path == uri.path, "\(uri) moves to \(moved)")
    }
    guard uri.matches(address), uri.port == nil, uri.path != "/" else { return }
    // Byte by byte the same up to the query; scheme, host and the scheme's own port may be written in other ways.
    let (wanted, found) = (bare(uri.rawValue), bare(address))
    let portless = [":80/", ":443/", ":/"].map { found.replacing($0, with: "/") } + [found]
    try expect(portless.contains(wanted), "\(address.debugDescription) matches \(uri)")
  }

  /// The text between the scheme's slashes and the query.
  private static func bare(_ text: String) -> String {
    let address = decoded(text.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }).lowercased()
    return String(address.drop { $0 != ":" }.dropFirst().drop { $0 == "/" })
  }

  /// Against a reader of few lines that works on bytes.
  private static func checkReading(_ address: String) throws {
    let halves = address.utf8.split(separator: UInt8(ascii: "#"), maxSplits: 1, omittingEmptySubsequences: false)
    let mark = halves[0].firstIndex(of: UInt8(ascii: "?"))
    let query = mark.map { Array(halves[0][$0...].dropFirst()) } ?? []
    let parts = query.split(separator: UInt8(ascii: "&"))
    let expected = parts.map(pair)
    // A malformed description does not hide the error that it describes.
    let isReadable =
      address.utf8.count <= AuthorizationResponse.longestURL
      && !zip(parts, expected).contains { part, pair in pair == nil && !isDescription(part) }
    let pairs = expected.compactMap(\.self)
    switch Result(catching: { () throws(CallbackError) in try AuthorizationResponse.parse(address) }) {
    case .success(let response):
      try expect(isReadable, "an unreadable URL is read: \(address.debugDescription)")
      // Exposed to be compared: these are the input's own.
      for (name, value) in [
        ("state", response.state?.exposed), ("code", response.code?.exposed), ("iss", response.issuer),
      ] {
        let values = pairs.filter { $0.name == Array(name.utf8) }.map(\.value)
        let isSame = values.count <= 1 && values.first ?? [] == Array((value ?? "").utf8)
        try expect(isSame, "another \(name): \(address.debugDescription)")
      }
    case .failure(let error):
      try expectSayable(error.description)
      if isReadable { try expect(error != .unreadable, "a readable URL is not read: \(address.debugDescription)") }
    }
  }

  private static func isDescription(_ part: some Collection<UInt8>) -> Bool {
    let name = decoded(part.prefix { $0 != UInt8(ascii: "=") })
    return ["error_description", "error_uri"].contains(name)
  }

  private struct Pair {
    var name: [UInt8]
    var value: [UInt8]
  }

  private static func pair(_ bytes: some Collection<UInt8>) -> Pair? {
    let bytes = Array(bytes)
    let middle = bytes.firstIndex(of: UInt8(ascii: "=")) ?? bytes.count
    guard let name = unescaped(bytes[..<middle]), let value = unescaped(bytes[middle...].dropFirst()) else {
      return nil
    }
    return Pair(name: name, value: value)
  }

  private static func unescaped(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
    let text = decoded(bytes.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 })
    guard let plain = text.removingPercentEncoding else { return nil }
    return Array(plain.utf8)
  }

  /// A token in the fragment is accepted only with the right state, and never with a refresh token.
  private static func checkFragment(_ address: String) throws {
    let expected = AuthorizationResponse.Expectation(state: login.state, issuer: issuer, issuerPromised: false)
    let found = Result { () throws(CallbackError) in
      try AuthorizationResponse.implicitTokens(address, for: expected, quirks: TokenResponseQuirks())
    }
    switch found {
    case .success(let tokens):
      let fragment = address.utf8.split(separator: UInt8(ascii: "#"), maxSplits: 1, omittingEmptySubsequences: false)
      let values = FormEncoding.decode(Substring(fragment.last ?? Substring().utf8)) ?? []
      // Exposed to be compared: it is the target's own.
      try expect(
        fragment.count == 2 && values.contains(Parameter("state", login.state.exposed)), "a token without its state")
      try expect(!tokens.accessToken.isEmpty && tokens.refreshToken == nil, "tokens that no fragment has")
    case .failure(let error): try expectSayable(error.description)
    }
  }

  /// A code is accepted only with the right state, and only without a contradiction.
  private static func checkCode(_ address: String) throws {
    let provider = provider(.oidc)
    guard case .success(let found) = provider.code(from: ReturnedAddress(address), login: login, metadata: metadata).end
    else {
      throw Broken(description: "a callback that is not signed asks for something")
    }
    let response = try? AuthorizationResponse.parse(address)
    switch found {
    case .success(let code):
      try expect(
        !code.isEmpty && response?.state == login.state, "a code without its state: \(address.debugDescription)")
      try expect(
        response?.error == nil && response?.hasUnexpectedTokens == false, "a code together with another result")
      try expect(response?.issuer == nil || response?.issuer == issuer, "a code of another issuer")
    case .failure(let error):
      try expectSayable(error.description)
      if case .denied = error {
        try expect(response?.state == login.state, "an unknown state ends a login: \(address.debugDescription)")
      }
    }
  }
}
