public import FoundationEssentials

// The data stored with the tokens.
extension TokenResponse {
  /// Merges ``extra`` with the data stored before: a member that the response omits is kept.
  public func extra(over before: Data?) -> Data {
    guard let old = before.flatMap({ JSON(message: $0) })?.dictionary, let new = JSON(message: extra)?.dictionary else {
      return extra
    }
    return Data(JSON.object(old.merging(new) { $1 }).serialized(sorted: true))
  }

  /// Adds these texts to the stored members; members of the response take precedence.
  public func keeping(_ texts: [String: String]) -> TokenResponse {
    var copy = self
    let others = JSON.object(texts.mapValues(JSON.string)).text(sorted: true)
    copy.extra = extra(over: Data(others.utf8))
    return copy
  }

  /// A stored member as text; nil if it is absent, empty or neither a text nor a number.
  public func kept(_ name: String) -> String? {
    switch JSON(message: extra)?.dictionary?[name] {
    case .string(let text) where !text.isEmpty: text
    case .number(let text): text
    default: nil
    }
  }
}
