import BrokerAPI

extension Form where Output == String {
  /// JSON for the wire: written as TOML, or as a text where TOML cannot say it (`null`).
  static let jsonObject = json("a table, or a text with a JSON object") { $0.members != nil }
  static let jsonArray = json("a list of tables, or a text with a JSON array of objects") { value in
    value.array?.allSatisfy { $0.members != nil } ?? false
  }

  private static func json(_ expected: String, _ fits: @escaping @Sendable (JSON) -> Bool) -> Form {
    Form(expected: expected) { value throws(Unfit) in
      let json: JSON
      if case .text(let text) = value {
        do throws(JSONError) {
          json = try .parse(text.utf8)
        } catch {
          throw .found("one where there is \(error)")
        }
      } else {
        json = try JSON(value)
      }
      guard fits(json) else { throw .found(value.isText ? "one with \(json.kind)" : value.kind) }
      let text = json.text()
      // It becomes a part of an address.
      guard text.utf8.count <= 4096 else { throw .found("one of \(text.utf8.count) bytes") }
      return text
    }
  }
}

extension Item.Value {
  fileprivate var isText: Bool {
    if case .text = self { true } else { false }
  }
}

extension JSON {
  fileprivate init(_ value: Item.Value) throws(Unfit) {
    switch value {
    case .text(let text): self = .string(text)
    case .number(let number): self = .integer(number)
    case .fraction(let fraction):
      guard fraction.isFinite else { throw .found("one with \(fraction)") }
      self = .double(fraction)
    case .flag(let flag): self = .bool(flag)
    case .list(let items):
      var elements: [JSON] = []
      for item in items { elements.append(try JSON(item.value)) }
      self = .array(elements)
    case .table(let table):
      var members: [JSON.Member] = []
      for (name, item) in table.inOrder { members.append(.init(name: name, value: try JSON(item.value))) }
      self = .object(members)
    case .time: throw .found("one with a date or time")
    }
  }
}
