public import FoundationEssentials
import OAuth

/// Where authorised calls may go: to the provider's own addresses, since the token goes along.
public struct APITraits: Sendable, Equatable {
  /// What a path is relative to.
  public var base: URL?
  /// As ``HTTPRequest/origin`` writes them; empty: no call is made.
  public var origins: Set<String>

  /// Calls may go to the base's origin too.
  public init(base: URL? = nil, origins: [URL] = []) {
    self.base = base
    self.origins = Set(([base].compactMap(\.self) + origins).map(Self.origin))
  }

  /// The address of a call.
  ///
  /// - Parameter text: an address, or a path that begins with a slash.
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
