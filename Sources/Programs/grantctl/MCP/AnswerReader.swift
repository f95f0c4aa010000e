/// One HTTP/1.1 answer of the broker's own listener, from its bytes (RFC 9112): a length, chunks, or the end of the connection.
struct AnswerReader {
  /// Bytes of the status line and the headers, and of a line between chunks.
  private static let longestHead = 64 << 10
  private static let longestLine = 4 << 10

  struct Head: Equatable {
    var status = 0
    var headers: [(name: String, value: String)] = []

    /// - Parameter name: in lower case.
    func first(_ name: String) -> String? { headers.first { $0.name == name }?.value }

    /// Without its parameters, in lower case.
    var type: String { (first("content-type") ?? "").prefix { $0 != ";" }.lowercased().filter { $0 != " " } }

    static func == (one: Head, other: Head) -> Bool {
      one.status == other.status
        && one.headers.elementsEqual(other.headers) { $0.name == $1.name && $0.value == $1.value }
    }
  }

  enum Part: Equatable {
    case head(Head)
    case body([UInt8])
    case end
  }

  /// The bytes are not an answer.
  struct Fault: Error, Equatable { var reason: String }

  private enum State {
    case head
    case length(Int)
    case chunkSize
    case chunk(Int)
    case chunkEnd
    case trailer
    case toTheEnd
    case over
  }

  private var state = State.head
  private var bytes: [UInt8] = []

  /// - Returns: the parts that the bytes complete.
  mutating func append(_ more: [UInt8]) throws(Fault) -> [Part] {
    bytes += more
    var parts: [Part] = []
    while let part = try next() { parts.append(part) }
    return parts
  }

  /// The connection has ended.
  ///
  /// - Returns: whether the answer is complete.
  mutating func finish() -> Bool {
    switch state {
    case .over, .toTheEnd: true
    case .head, .length, .chunkSize, .chunk, .chunkEnd, .trailer: false
    }
  }

  private mutating func next() throws(Fault) -> Part? {
    switch state {
    case .head: return try head()
    case .length(let left):
      let part = Array(bytes.prefix(left))
      guard !part.isEmpty else { return left == 0 ? end() : nil }
      bytes.removeFirst(part.count)
      state = .length(left - part.count)
      return .body(part)
    case .chunkSize:
      guard let line = try line() else { return nil }
      guard let size = Int(line.prefix { $0 != ";" }.filter { $0 != " " }, radix: 16), size >= 0 else {
        throw Fault(reason: "a chunk has no size")
      }
      state = size == 0 ? .trailer : .chunk(size)
      return try next()
    case .chunk(let left):
      let part = Array(bytes.prefix(left))
      guard !part.isEmpty else { return nil }
      bytes.removeFirst(part.count)
      state = part.count == left ? .chunkEnd : .chunk(left - part.count)
      return .body(part)
    case .chunkEnd:
      guard let line = try line() else { return nil }
      guard line.isEmpty else { throw Fault(reason: "a chunk does not end") }
      state = .chunkSize
      return try next()
    case .trailer:
      guard let line = try line() else { return nil }
      return line.isEmpty ? end() : try next()
    case .toTheEnd:
      guard !bytes.isEmpty else { return nil }
      defer { bytes = [] }
      return .body(bytes)
    case .over: return nil
    }
  }

  private mutating func end() -> Part {
    state = .over
    return .end
  }

  private mutating func line() throws(Fault) -> String? {
    guard let end = bytes.firstIndex(of: 0x0A) else {
      guard bytes.count <= Self.longestLine else { throw Fault(reason: "a line is too long") }
      return nil
    }
    let line = String(decoding: bytes[..<end], as: UTF8.self)
    bytes.removeFirst(end + 1)
    return line.hasSuffix("\r") ? String(line.dropLast()) : line
  }

  private mutating func head() throws(Fault) -> Part? {
    guard let end = Self.endOfHead(bytes) else {
      guard bytes.count <= Self.longestHead else { throw Fault(reason: "the headers are too large") }
      return nil
    }
    let lines = String(decoding: bytes[..<end], as: UTF8.self).split { $0 == "\r\n" || $0 == "\n" }
    bytes.removeFirst(end)
    let words = (lines.first ?? "").split(separator: " ")
    guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1]), (100..<600).contains(status)
    else {
      throw Fault(reason: "no HTTP answer")
    }
    var head = Head(status: status)
    for line in lines.dropFirst() {
      guard let colon = line.firstIndex(of: ":") else { throw Fault(reason: "a header has no colon") }
      head.headers.append(
        (line[..<colon].lowercased(), String(line[line.index(after: colon)...]).trimmed))
    }
    // An interim answer (RFC 9110 §15.2).
    guard status >= 200 else { return try next() }
    if status == 204 || status == 304 {
      state = .length(0)
    } else if head.first("transfer-encoding")?.lowercased() == "chunked" {
      state = .chunkSize
    } else if let length = head.first("content-length") {
      guard let count = Int(length), count >= 0 else { throw Fault(reason: "the length is not a number") }
      state = .length(count)
    } else {
      state = .toTheEnd
    }
    return .head(head)
  }

  /// Behind the empty line.
  private static func endOfHead(_ bytes: [UInt8]) -> Int? {
    guard bytes.count >= 4 else { return nil }
    return (3..<bytes.count).first {
      bytes[$0] == 0x0A && bytes[$0 - 1] == 0x0D && bytes[$0 - 2] == 0x0A && bytes[$0 - 3] == 0x0D
    }.map { $0 + 1 }
  }
}
