/// Why a text is no JSON, and where.
public struct JSONError: Error, Sendable, Equatable, CustomStringConvertible {
  public var message: String
  /// The byte at which the text stops being JSON, counted from 0.
  public var offset: Int
  /// The bound that the text exceeds; nil: it is no JSON.
  public var exceeded: JSON.Bound?

  public init(_ message: String, at offset: Int, exceeded: JSON.Bound? = nil) {
    self.message = message
    self.offset = offset
    self.exceeded = exceeded
  }

  public var description: String { "\(message) at byte \(offset)" }
}

extension JSON {
  /// Arrays and objects may be nested this deep.
  public static let maximumDepth = 64

  /// The limits of a text, and how it is read where RFC 8259 leaves the choice.
  public struct Options: Sendable, Equatable {
    public enum Repeated: Sendable {
      /// No two names of an object have the same bytes (§8.3).
      case refusedByBytes
      /// Unicode takes no two names of an object for the same.
      case refused
      /// The last of the members counts (§4) whose names Unicode takes for the same.
      case last
    }

    public var bytes = Int.max
    public var depth = JSON.maximumDepth
    /// Values in the text, those inside of others too. A value takes many times its bytes: `[1,1,…]` of 256 KiB is
    /// 131,000 values.
    public var values = Int.max
    /// Elements of the outermost array.
    public var elements = Int.max
    public var repeated = Repeated.refusedByBytes
    /// A byte order mark before the text is ignored (§8.1), not refused.
    public var takesMark = false
    /// Half a surrogate pair and invalid UTF-8 become U+FFFD (§8.2), and are not refused.
    public var repairsText = false

    public init() {}
  }

  public enum Bound: Sendable, Equatable {
    case bytes
    case values
    case elements
  }

  /// The result of reading a text.
  public struct Reading: Sendable {
    public var outcome: Result<JSON, JSONError>
    /// How many values were built.
    public var values = 0
    /// Some names of members that the text repeats.
    public var repeated: [String] = []

    /// The maximum number of repeated names.
    static let mostRepeated = 8
  }

  /// Parses one JSON text (RFC 8259). Without other options it is strict: valid UTF-8, no byte order mark, no lone
  /// surrogates, no name twice in an object, at most ``maximumDepth`` levels, and nothing but white space around it.
  public static func parse(
    _ bytes: some Collection<UInt8>, _ options: Options = Options()
  ) throws(JSONError) -> JSON {
    try read(bytes, options).outcome.get()
  }

  /// The same, with the number of values and the repeated names.
  public static func read(_ bytes: some Collection<UInt8>, _ options: Options) -> Reading {
    bytes.withContiguousStorageIfAvailable { read($0, options) }
      ?? Array(bytes).withUnsafeBufferPointer { read($0, options) }
  }

  private static func read(_ buffer: UnsafeBufferPointer<UInt8>, _ options: Options) -> Reading {
    guard buffer.count <= options.bytes else {
      return Reading(
        outcome: .failure(JSONError("more than \(options.bytes) bytes", at: options.bytes, exceeded: .bytes)))
    }
    if !options.repairsText {
      do throws(UTF8.ValidationError) {
        _ = try UTF8Span(validating: buffer.span)
      } catch {
        return Reading(outcome: .failure(JSONError("invalid UTF-8", at: error.byteOffsets.lowerBound)))
      }
    }
    var parser = JSONParser(bytes: buffer, options: options)
    let outcome: Result<JSON, JSONError>
    do throws(JSONError) { outcome = .success(try parser.text()) } catch { outcome = .failure(error) }
    return Reading(outcome: outcome, values: parser.values, repeated: parser.repeated)
  }
}
