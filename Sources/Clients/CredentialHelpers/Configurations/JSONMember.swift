public import BrokerAPI

/// One member of a program's JSON file, such as `credHelpers` → a host → `grantd`.
public struct JSONMember: Sendable, Equatable {
  public var path: [String]
  public var value: JSON

  public init(path: [String], value: JSON) {
    self.path = path
    self.value = value
  }

  /// Nil if a value on the path is not an object.
  public func merged(into json: JSON) -> JSON? { Self.set(value, at: path[...], in: json) }

  /// The value of another's that is in the member's place.
  public func conflict(in json: JSON) -> JSON? {
    var found: JSON? = json
    for name in path { found = found?[name] }
    return found == value ? nil : found
  }

  /// Without the member, if it has this value, and without objects that are empty then.
  public func removed(from json: JSON) -> JSON { Self.remove(path[...], value, from: json) }

  private static func set(_ value: JSON, at path: ArraySlice<String>, in json: JSON) -> JSON? {
    guard let name = path.first else { return value }
    guard case .object(var members) = json else { return nil }
    let index = members.firstIndex { $0.name == name }
    guard let inner = set(value, at: path.dropFirst(), in: index.map { members[$0].value } ?? [:]) else { return nil }
    if let index { members[index].value = inner } else { members.append(.init(name: name, value: inner)) }
    return .object(members)
  }

  private static func remove(_ path: ArraySlice<String>, _ value: JSON, from json: JSON) -> JSON {
    guard let name = path.first, case .object(var members) = json,
      let index = members.firstIndex(where: { $0.name == name })
    else { return json }
    if path.count == 1 {
      if members[index].value == value { members.remove(at: index) }
    } else {
      let inner = remove(path.dropFirst(), value, from: members[index].value)
      if inner != members[index].value, inner == [:] { members.remove(at: index) } else { members[index].value = inner }
    }
    return .object(members)
  }
}
