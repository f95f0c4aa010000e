/// The resources that tokens are for (RFC 8707 §2).
public enum ResourceIndicator {
  /// Whether it is an absolute URI without a fragment.
  public static func isValid(_ text: String) -> Bool {
    guard text.utf8.count <= 2048, let uri = URI(text) else { return false }
    return !uri.scheme.isEmpty && uri.fragment == nil
  }
}
