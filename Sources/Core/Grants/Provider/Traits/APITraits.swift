public import FoundationEssentials
public import OAuth

/// The allowed destinations of authorised calls: only the provider's URLs, since the token is sent along.
public struct APITraits: Sendable, Equatable {
  /// The base URL of a path.
  public var base: URL?
  /// In the format of ``HTTPRequest/origin``; empty: no call is allowed.
  public var origins: Set<String>
  /// The nearest addresses that calls may go to; nil: those of the provider.
  public var reach: AddressScope?

  /// The base's origin is allowed too.
  public init(base: URL? = nil, origins: [URL] = []) {
    self.base = base
    self.origins = Set(([base].compactMap(\.self) + origins).map(Self.origin))
  }

  /// The URL of a call.
  ///
  /// - Parameter text: a URL, or a path that begins with a slash.
  public func resolve(_ text: String) throws(Objection) -> URL {
    var whole = text
    if text.hasPrefix("/"), let base = base?.absoluteString {
      whole = (base.hasSuffix("/") ? String(base.dropLast()) : base) + text
    }
    guard whole.utf8.count <= 8192, let url = Endpoint.url(whole, allowInsecureHTTP: true) else {
      throw Objection(
        "url", "expected an address, or a path that begins with a slash",
        hint: base == nil ? "A path needs api_base in the provider's section." : nil)
    }
    let origin = Self.origin(url)
    guard origins.contains(origin) else {
      throw Objection(
        "url", "the account's token must not go to \(origin)",
        hint: "Allowed are: \(origins.sorted().joined(separator: ", ")). An admin can add to api_origins.")
    }
    return url
  }

  private static func origin(_ url: URL) -> String {
    HTTPRequest(purpose: .resource, method: "GET", url: url).origin
  }
}
