import Broker
import BrokerAPI

/// A value in a JSON file of another program. All other members stay, in their order, with their numbers as written.
enum MergedJSON {
  /// - Parameters:
  ///   - content: a JSON text.
  ///   - names: of the objects' members, from the outermost inwards. Those that are missing are added.
  static func set(
    _ content: [UInt8], at names: [String], in bytes: [UInt8], _ path: String
  ) throws(TokenFileFailure) -> [UInt8] {
    let (old, value) = (try parsed(bytes, path), try parsed(content, path))
    guard let new = put(value, at: names[...], in: old) else {
      throw TokenFileFailure(
        "in \(path) there is no object where /\(names.joined(separator: "/")) belongs",
        hint: "Have a look at the file and at `json_pointer`.")
    }
    return new == old ? bytes : written(new, like: bytes)
  }

  /// The unchanged bytes if the member does not exist.
  static func removed(_ names: [String], from bytes: [UInt8]) -> [UInt8] {
    guard let old = try? JSON.parse(bytes), let new = without(names[...], old), new != old else { return bytes }
    return written(new, like: bytes)
  }

  private static func parsed(_ bytes: [UInt8], _ path: String) throws(TokenFileFailure) -> JSON {
    do throws(JSONError) {
      return try JSON.parse(bytes)
    } catch {
      throw TokenFileFailure(
        "\(path) is not JSON that the broker can change: \(error)", hint: "Correct the file, or change `path`.")
    }
  }

  private static func put(_ value: JSON, at names: ArraySlice<String>, in json: JSON) -> JSON? {
    guard let name = names.first else { return value }
    guard case .object(var members) = json else { return nil }
    guard let index = members.firstIndex(where: { $0.name == name }) else {
      guard let new = put(value, at: names.dropFirst(), in: names.count > 1 ? .object([]) : .null) else { return nil }
      return .object(members + [.init(name: name, value: new)])
    }
    guard let new = put(value, at: names.dropFirst(), in: members[index].value) else { return nil }
    members[index].value = new
    return .object(members)
  }

  private static func without(_ names: ArraySlice<String>, _ json: JSON) -> JSON? {
    guard let name = names.first, case .object(var members) = json,
      let index = members.firstIndex(where: { $0.name == name })
    else { return nil }
    if names.count == 1 {
      members.remove(at: index)
    } else {
      guard let inner = without(names.dropFirst(), members[index].value) else { return nil }
      members[index].value = inner
    }
    return .object(members)
  }

  /// On one line where it was so, else with the indentation of the first member.
  private static func written(_ json: JSON, like bytes: [UInt8]) -> [UInt8] {
    let end = bytes.last == UInt8(ascii: "\n") ? [UInt8(ascii: "\n")] : []
    guard let start = bytes.dropLast(end.count).firstIndex(of: UInt8(ascii: "\n")) else {
      return json.serialized() + end
    }
    let indent = bytes[(start + 1)...].prefix { $0 == 0x20 || $0 == 0x09 }
    return lines(json, indent.isEmpty ? [0x20, 0x20] : Array(indent), depth: 0) + end
  }

  private static func lines(_ json: JSON, _ indent: [UInt8], depth: Int) -> [UInt8] {
    func line(_ depth: Int) -> [UInt8] { [0x0A] + Array(repeatElement(indent, count: depth).joined()) }
    func list(_ items: [[UInt8]], _ open: Character, _ close: Character) -> [UInt8] {
      let separator = [UInt8(ascii: ",")] + line(depth + 1)
      return Array("\(open)".utf8) + line(depth + 1) + Array(items.joined(separator: separator)) + line(depth)
        + Array("\(close)".utf8)
    }
    switch json {
    case .object(let members) where !members.isEmpty:
      return list(
        members.map {
          JSON.string($0.name).serialized() + Array(": ".utf8) + lines($0.value, indent, depth: depth + 1)
        }, "{", "}")
    case .array(let items) where !items.isEmpty:
      return list(items.map { lines($0, indent, depth: depth + 1) }, "[", "]")
    default: return json.serialized()
    }
  }
}
