/// A URL that a browser or another program delivered, parsed once. It is untrusted and never prints.
public struct ReturnedAddress: Sendable {
  /// The whole URL.
  public let text: String
  /// Its content as an authorization response (RFC 6749 §4.1.2), or the error.
  public let response: Result<AuthorizationResponse, CallbackError>
  /// The parameters of its query, in order; empty if there are none or they cannot be read.
  public let query: [Parameter]
  /// The parameters of its fragment (RFC 6749 §4.2.2).
  public let fragment: [Parameter]
  /// The claimed `state`, not verified: from the query, a signed response (JARM), or the fragment.
  public let claimedState: Secret?
  private let uri: URI?

  public init(_ text: String) {
    self.text = text
    response = Result { () throws(CallbackError) in try AuthorizationResponse.parse(text) }
    guard text.utf8.count <= AuthorizationResponse.longestURL else {
      (query, fragment, claimedState, uri) = ([], [], nil, nil)
      return
    }
    // By bytes: a combining mark after a "#" or "?" makes another Character of it.
    let halves = text.utf8.split(separator: UInt8(ascii: "#"), maxSplits: 1, omittingEmptySubsequences: false)
    query = Self.parameters(Substring(halves[0].drop { $0 != UInt8(ascii: "?") }.dropFirst()))
    fragment = halves.count == 2 ? Self.parameters(Substring(halves[1])) : []
    uri = URI(text) ?? URI(String(Substring(halves[0])))
    let plain = try? response.get()
    let own = fragment.filter { $0.name == "state" }
    let inFragment =
      own.count == 1 && own[0].value.utf8.count <= AuthorizationResponse.longestState ? Secret(own[0].value) : nil
    claimedState = plain?.state ?? plain?.response.flatMap(JARM.claimedState) ?? inFragment
  }

  /// Omits parameters that cannot be decoded.
  private static func parameters(_ text: Substring) -> [Parameter] {
    FormEncoding.decodeLeniently(text).filter(\.isExact).map(\.parameter)
  }

  /// In lower case; nil if the text is not a URI.
  public var scheme: String? { uri?.scheme.lowercased() }
  /// In lower case.
  public var host: String? { uri?.host?.lowercased() }
  /// Percent-encoded, as written.
  public var path: String { uri?.path ?? "" }

  /// Whether it is a request to the redirect URI; the fragment is ignored.
  public func isAt(_ redirect: RedirectURI) -> Bool { uri.map(redirect.matches) ?? false }

  /// Whether it has this scheme and host (in lower case), without a user and a port.
  func isUnder(scheme: String, host: String) -> Bool {
    self.scheme == scheme && self.host == host && uri?.user == nil && uri?.port == nil
  }

  /// The query parameter with this name; nil if it is absent or repeated.
  public func value(_ name: String) -> String? { Self.single(name, query) }

  /// The fragment parameter with this name; nil if it is absent or repeated.
  public func fragmentValue(_ name: String) -> String? { Self.single(name, fragment) }

  private static func single(_ name: String, _ parameters: [Parameter]) -> String? {
    let found = parameters.filter { $0.name == name }
    return found.count == 1 ? found[0].value : nil
  }
}

extension ReturnedAddress: Redacted {
  public var description: String { "returned address" }
}
