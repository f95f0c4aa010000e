extension JSON {
  /// The value over several lines, for people: what fits on a line stays on it.
  public func pretty(width: Int = 78) -> String {
    pretty(indentation: 0, taken: 0, width: width)
  }

  /// `taken`: the columns before and behind the value on its first line.
  private func pretty(indentation: Int, taken: Int, width: Int) -> String {
    let line = spaced
    if line.count + indentation + taken <= width { return line }
    let inner = String(repeating: " ", count: indentation + 2)
    let outer = String(repeating: " ", count: indentation)
    switch self {
    case .array(let elements) where !elements.isEmpty:
      let lines = elements.map { inner + $0.pretty(indentation: indentation + 2, taken: 1, width: width) }
      return "[\n" + lines.joined(separator: ",\n") + "\n\(outer)]"
    case .object(let members) where !members.isEmpty:
      let lines = members.map { member in
        let name = JSON.string(member.name).spaced + ": "
        return inner + name
          + member.value.pretty(indentation: indentation + 2, taken: name.count + 1, width: width)
      }
      return "{\n" + lines.joined(separator: ",\n") + "\n\(outer)}"
    default: return line
    }
  }

  /// On one line, with a space behind commas and colons.
  private var spaced: String {
    switch self {
    case .array(let elements): "[" + elements.map(\.spaced).joined(separator: ", ") + "]"
    case .object(let members):
      "{" + members.map { JSON.string($0.name).spaced + ": " + $0.value.spaced }.joined(separator: ", ") + "}"
    default: String(decoding: serialized(), as: UTF8.self)
    }
  }
}
