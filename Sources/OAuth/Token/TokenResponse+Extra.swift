public import FoundationEssentials

// What is kept beside the tokens.
extension TokenResponse {
  /// ``extra`` over what was kept before: an answer that leaves a member out takes nothing back.
  public func extra(over before: Data?) -> Data {
    guard let old = before.flatMap({ JSON($0) })?.members, let new = JSON(extra)?.members else { return extra }
    return Data(JSON.object(old.merging(new) { $1 }).serialized.utf8)
  }

  /// The same with these texts among the members that are kept; those of the answer itself win.
  public func keeping(_ texts: [String: String]) -> TokenResponse {
    var copy = self
    let others = JSON.object(texts.mapValues(JSON.string)).serialized
    copy.extra = extra(over: Data(others.utf8))
    return copy
  }

  /// A member that is kept, as text; nil where it is absent, empty or something else than a text or a number.
  public func kept(_ name: String) -> String? {
    switch JSON(extra)?.members?[name] {
    case .string(let text) where !text.isEmpty: text
    case .number(let text): text
    default: nil
    }
  }
}
