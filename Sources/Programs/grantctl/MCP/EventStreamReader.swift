/// Server-sent events from their bytes (WHATWG HTML §9.2.6).
struct EventStreamReader {
  struct Event: Equatable {
    var type = "message"
    var data: [UInt8] = []
  }

  /// An event or a line is longer than the reader's limit.
  struct TooLong: Error, Equatable {}

  /// Bytes of an event's data.
  let longest: Int
  /// Nil: none yet.
  private(set) var lastID: String?
  /// Milliseconds before the stream is requested again, as the server wants it.
  private(set) var retry: Int?
  private var line: [UInt8] = []
  private var event = Event()
  private var hasData = false
  private var endedWithReturn = false

  init(longest: Int) { self.longest = longest }

  /// - Returns: the events that the bytes complete. An event without data is ignored.
  mutating func append(_ bytes: [UInt8]) throws(TooLong) -> [Event] {
    var events: [Event] = []
    for byte in bytes {
      defer { endedWithReturn = byte == 0x0D }
      if byte == 0x0A, endedWithReturn { continue }
      guard byte == 0x0A || byte == 0x0D else {
        guard line.count < longest + 16 else { throw TooLong() }
        line.append(byte)
        continue
      }
      if let event = try endLine() { events.append(event) }
    }
    return events
  }

  private mutating func endLine() throws(TooLong) -> Event? {
    defer { line = [] }
    guard !line.isEmpty else {
      defer { (event, hasData) = (Event(), false) }
      return hasData ? event : nil
    }
    let colon = line.firstIndex(of: UInt8(ascii: ":"))
    let field = String(decoding: line[..<(colon ?? line.endIndex)], as: UTF8.self)
    var value = colon.map { line[($0 + 1)...] } ?? []
    if value.first == 0x20 { value = value.dropFirst() }
    switch field {
    case "event": event.type = String(decoding: value, as: UTF8.self)
    case "data":
      guard event.data.count + value.count <= longest else { throw TooLong() }
      // A line break within JSON is white space; a message of stdio has none.
      if hasData { event.data.append(0x20) }
      event.data += value
      hasData = true
    case "id" where !value.contains(0) && value.count <= 1024:
      lastID = String(decoding: value, as: UTF8.self)
    case "retry": retry = Int(String(decoding: value, as: UTF8.self)).map { max(0, $0) } ?? retry
    default: break
    }
    return nil
  }
}
