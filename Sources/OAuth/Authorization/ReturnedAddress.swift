/// An address that a browser or another program brought back, read once: it may be anybody's. It never prints.
public struct ReturnedAddress: Sendable {
  /// The whole of it.
  public let text: String
  /// What it says as an authorization response (RFC 6749 §4.1.2), or why it says nothing.
  public let response: Result<AuthorizationResponse, CallbackError>
  /// The parameters of its query, in order; empty where there are none or they cannot be read.
  public let query: [Parameter]
  /// Those of its fragment (RFC 6749 §4.2.2).
  public let fragment: [Parameter]
  /// The `state` that it claims: in the query, in a signed response (JARM), or in the fragment. Nothing of it is proven.
  public let claimedState: Secret?
  private let uri: URI?

  public init(_ text: String) {
    self.text = text
    response = Result { () throws(CallbackError) in try AuthorizationResponse.parse(text) }
    guard text.utf8.count <= AuthorizationResponse.longestURL else {
      (query, fragment, claimedState, uri) = ([], [], nil, nil)
      return
    }
    // By bytes: a combining mark behind a "#" or "?" makes another Character of it.
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

  /// Without parameters that cannot be decoded.
  private static func parameters(_ text: Substring) -> [Parameter] {
    FormEncoding.decodeLeniently(text).filter(\.isExact).map(\.parameter)
  }

  /// In lower case; nil where the text is no URI.
  public var scheme: String? { uri?.scheme.lowercased() }
  /// In lower case.
  public var host: String? { uri?.host?.lowercased() }
  /// Percent-encoded, as it is written.
  public var path: String { uri?.path ?? "" }

  /// Whether this is where the redirect URI leads; the fragment is not looked at.
  public func isAt(_ redirect: RedirectURI) -> Bool { uri.map(redirect.matches) ?? false }

  /// Whether it is of this scheme and host (in lower case), with no user and no port.
  func isUnder(scheme: String, host: String) -> Bool {
    self.scheme == scheme && self.host == host && uri?.user == nil && uri?.port == nil
  }

  /// The parameter of that name in the query; nil also where it is there twice.
  public func value(_ name: String) -> String? { Self.single(name, query) }

  /// The parameter of that name in the fragment; nil also where it is there twice.
  public func fragmentValue(_ name: String) -> String? { Self.single(name, fragment) }

  private static func single(_ name: String, _ parameters: [Parameter]) -> String? {
    let found = parameters.filter { $0.name == name }
    return found.count == 1 ? found[0].value : nil
  }
}

extension ReturnedAddress: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "returned address" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}
