/// The id of a request, echoed in its reply (JSON-RPC 2.0 §4).
public enum RPCID: Sendable, Hashable {
  case null
  case string(String)
  /// The literal as written, so that it is echoed digit by digit.
  case number(String)

  public var json: JSON {
    switch self {
    case .null: .null
    case .string(let text): .string(text)
    case .number(let literal): .number(literal)
    }
  }

  /// Nil where the value may not be an id.
  public init?(json: JSON) {
    switch json {
    case .null: self = .null
    case .string(let text): self = .string(text)
    case .number(let literal): self = .number(literal)
    case .bool, .array, .object: return nil
    }
  }
}
