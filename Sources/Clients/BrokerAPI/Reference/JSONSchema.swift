/// What JSON a type is, as far as the reference says it.
public indirect enum JSONSchema: Sendable, Equatable {
  case any
  case boolean
  case integer
  case number
  case string
  case array(JSONSchema)
  /// An object with any member names.
  case map(JSONSchema)
  /// A closed set of strings, with the name of its type.
  case enumeration(name: String, cases: [String])
  case object(ObjectSchema)

  /// In words, for people: `array of string`.
  public var words: String {
    switch self {
    case .any: "any"
    case .boolean: "boolean"
    case .integer: "integer"
    case .number: "number"
    case .string, .enumeration: "string"
    case .array(let element): "array of \(element.words)"
    case .map(let value): "object of \(value.words)"
    case .object(let object): object.name
    }
  }

  /// As a JSON Schema (draft 7); a named type is a reference to the components.
  public var json: JSON {
    switch self {
    case .any: .object([])
    case .boolean, .integer, .number, .string: ["type": .string(words)]
    case .array(let element): ["type": "array", "items": element.json]
    case .map(let value): ["type": "object", "additionalProperties": value.json]
    case .enumeration(let name, _): ["$ref": .string("#/components/schemas/\(name)")]
    case .object(let object): ["$ref": .string("#/components/schemas/\(object.name)")]
    }
  }

  /// The named types in it, each once, itself first.
  var named: [JSONSchema] {
    switch self {
    case .any, .boolean, .integer, .number, .string: []
    case .array(let element): element.named
    case .map(let value): value.named
    case .enumeration: [self]
    case .object(let object): [self] + object.members.flatMap(\.schema.named)
    }
  }
}

/// An object with known members.
public struct ObjectSchema: Sendable, Equatable {
  public var name: String
  public var members: [Member]

  public struct Member: Sendable, Equatable {
    public var name: String
    public var schema: JSONSchema
    public var required: Bool
    /// Its meaning; empty if undocumented.
    public var meaning: String
  }

  /// As a JSON Schema, spelt out.
  public var json: JSON {
    let properties = members.map { member in
      JSON.Member(name: member.name, value: member.schema.described(member.meaning))
    }
    let required = members.filter(\.required).map { JSON.string($0.name) }
    return ["type": "object", "properties": .object(properties), "required": .array(required)]
  }
}

extension JSONSchema {
  func described(_ meaning: String) -> JSON {
    guard !meaning.isEmpty, case .object(let members) = json else { return json }
    let description = JSON.Member(name: "description", value: .string(meaning))
    // A reference must have no siblings in draft 7; they would be ignored.
    if self.json["$ref"] != nil { return .object([description, JSON.Member(name: "allOf", value: [json])]) }
    return .object([description] + members)
  }
}
