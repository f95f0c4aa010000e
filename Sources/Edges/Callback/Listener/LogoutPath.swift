import Grants
import OAuth

/// The URL for providers' logout notices (OpenID Connect Back-Channel Logout §2.5): the prefix, then the provider's
/// name in the configuration.
enum LogoutPath {
  static let prefix = "/backchannel-logout/"

  /// From a request's target; its query is ignored (§2.2 permits one).
  static func leads(_ target: Substring) -> Bool {
    target.utf8.starts(with: prefix.utf8)
  }

  /// The name behind the prefix, percent-decoded (RFC 3986 §2.1). Nil: no provider can have it.
  static func provider(in path: Substring) -> String? {
    guard leads(path) else { return nil }
    let name = FormEncoding.unescape(path.utf8.dropFirst(prefix.utf8.count), plus: UInt8(ascii: "+"))
    return name.flatMap(ProviderName.init(rawValue:))?.rawValue
  }
}
