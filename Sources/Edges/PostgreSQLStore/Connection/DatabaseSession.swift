import CLibpq
import FoundationEssentials
import Glibc
import OAuth
import SQLite

/// A connection to PostgreSQL in pipeline mode. It is used on one queue. Each call has a deadline; after a failure of the
/// connection the session is of no further use.
final class DatabaseSession {
  /// A text of the server in an error is cut after this many characters.
  private static let longestMessage = 300

  private let connection: OpaquePointer
  private let uptime: @Sendable () -> Duration
  /// Set by a warning 01000.
  private let warned: UnsafeMutablePointer<Int32>
  private var prepared: [String: String] = [:]
  private var names = 0
  private(set) var isLost = false
  /// Payloads of notifications that were not returned yet.
  private var heard: [String] = []

  /// Connects, which may resolve names and block.
  ///
  /// - Parameter deadline: on the clock `uptime`.
  init(_ target: Target, until deadline: Duration, uptime: @escaping @Sendable () -> Duration) throws(SessionFailure) {
    guard let connection = target.start() else { throw .lost("out of memory") }
    self.connection = connection
    self.uptime = uptime
    warned = .allocate(capacity: 1)
    warned.pointee = 0
    try connect(until: deadline)
    clibpq_watch(connection, warned)
    guard clibpq_set_nonblocking(connection) == 0, clibpq_enter_pipeline(connection) == 1 else { throw lost() }
  }

  deinit {
    clibpq_finish(connection)
    warned.deallocate()
  }

  private func connect(until deadline: Duration) throws(SessionFailure) {
    guard Int(clibpq_status(connection)) != CLIBPQ_CONNECTION_BAD else { throw lost() }
    var direction = Int32(POLLOUT)
    while true {
      try wait(for: direction, until: deadline)
      switch Int(clibpq_poll(connection)) {
      case CLIBPQ_POLLING_OK: return
      case CLIBPQ_POLLING_READING: direction = Int32(POLLIN)
      case CLIBPQ_POLLING_WRITING: direction = Int32(POLLOUT)
      default: throw lost()
      }
    }
  }

  /// Ends the connection before its descriptor is closed.
  func shutDown() {
    isLost = true
    _ = Glibc.shutdown(clibpq_socket(connection), Int32(SHUT_RDWR))
  }

  var descriptor: Int32 { clibpq_socket(connection) }
  /// The server's process as the connection's start named it.
  var process: Int64 { Int64(clibpq_process(connection)) }

  // MARK: Statements

  func ask(_ sql: String, _ values: [ColumnValue] = [], until deadline: Duration) throws(SessionFailure) -> Answer {
    try run([Query(sql, values)], until: deadline)[0]
  }

  /// Sends all statements at once and returns their answers.
  ///
  /// - Throws: the first failure. The statements after it were not run; an open transaction was rolled back.
  func run(_ queries: [Query], until deadline: Duration) throws(SessionFailure) -> [Answer] {
    guard !isLost else { throw .lost("the connection ended") }
    warned.pointee = 0
    var fresh: [String] = []
    // For each result whether it is an answer; false: of a PREPARE.
    var steps: [Bool] = []
    for query in queries {
      if prepared[query.sql] == nil {
        names += 1
        prepared[query.sql] = "g\(names)"
        fresh.append(query.sql)
        guard clibpq_send_prepare(connection, "g\(names)", query.sql) == 1 else { throw lost() }
        steps.append(false)
      }
      guard let name = prepared[query.sql], send(name, query.values) else { throw lost() }
      steps.append(true)
    }
    guard clibpq_sync(connection) == 1 else { throw lost() }
    let (answers, failure) = try receive(steps, until: deadline)
    guard let failure else {
      if warned.pointee != 0 { throw .unconfirmed }
      return answers
    }
    // They may not have been prepared.
    for sql in fresh { prepared[sql] = nil }
    if queries.first?.sql.hasPrefix("BEGIN") == true {
      guard clibpq_send_prepare(connection, "", "ROLLBACK") == 1, send("", []), clibpq_sync(connection) == 1 else {
        throw lost()
      }
      _ = try receive([false, true], until: deadline)
    }
    throw failure
  }

  private func send(_ name: String, _ values: [ColumnValue]) -> Bool {
    // One buffer for all values, which libpq copies.
    var bytes: [UInt8] = []
    var places: [(start: Int, count: Int)?] = []
    for value in values {
      let start = bytes.count
      switch value {
      case .null, .real:
        places.append(nil)
        continue
      case .integer(let number): withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
      case .text(let text): bytes += text.utf8
      case .blob(let data): bytes += data
      }
      places.append((start, bytes.count - start))
    }
    // An empty value is no NULL: its pointer must be one.
    bytes.append(0)
    return bytes.withUnsafeBytes { buffer in
      let base = buffer.baseAddress!.assumingMemoryBound(to: CChar.self)
      let pointers = places.map { $0.map { base + $0.start } }
      let lengths = places.map { Int32($0?.count ?? 0) }
      let formats = [Int32](repeating: 1, count: values.count)
      return clibpq_send_prepared(connection, name, Int32(values.count), pointers, lengths, formats) == 1
    }
  }

  private func receive(
    _ steps: [Bool], until deadline: Duration
  ) throws(SessionFailure) -> ([Answer], SessionFailure?) {
    var (answers, failure, step) = ([Answer](), SessionFailure?.none, 0)
    while true {
      let unsent = clibpq_flush(connection)
      guard unsent >= 0 else { throw lost() }
      while clibpq_is_busy(connection) == 0 {
        guard let result = clibpq_result(connection) else {
          guard Int(clibpq_status(connection)) == CLIBPQ_CONNECTION_OK else { throw lost() }
          step += 1
          guard step <= steps.count else { throw lost() }
          continue
        }
        defer { clibpq_clear(result) }
        switch Int(clibpq_result_status(result)) {
        case CLIBPQ_PIPELINE_SYNC:
          drainNotifications()
          return (answers, failure)
        case CLIBPQ_COMMAND_OK, CLIBPQ_TUPLES_OK:
          if step < steps.count, steps[step] { answers.append(Self.answer(result)) }
        case CLIBPQ_PIPELINE_ABORTED: break
        default: failure = failure ?? self.failure(of: result)
        }
      }
      if case .lost(let reason)? = failure { throw lost(reason) }
      try wait(for: Int32(POLLIN) | (unsent > 0 ? Int32(POLLOUT) : 0), until: deadline)
      guard clibpq_consume(connection) == 1 else { throw lost() }
    }
  }

  private func failure(of result: OpaquePointer) -> SessionFailure {
    let state = clibpq_result_field(result, Int32(CLIBPQ_FIELD_SQLSTATE)).map { String(cString: $0) } ?? ""
    let message = clibpq_result_field(result, Int32(CLIBPQ_FIELD_MESSAGE)).map { String(cString: $0) }
    // The server shuts down, or ended this connection.
    if state.isEmpty || state.hasPrefix("08") || state.hasPrefix("57P") { return .lost(Self.plain(message ?? "")) }
    return .refused(state: state, message: Self.plain(message ?? ""))
  }

  private static func answer(_ result: OpaquePointer) -> Answer {
    let columns = clibpq_columns(result)
    var rows: [[ColumnValue]] = []
    for row in 0..<clibpq_rows(result) {
      rows.append((0..<columns).map { value(result, row, $0) })
    }
    return Answer(rows: rows)
  }

  /// In binary form (PostgreSQL, "Data Types"): the types that the statements return.
  private static func value(_ result: OpaquePointer, _ row: Int32, _ column: Int32) -> ColumnValue {
    guard clibpq_is_null(result, row, column) == 0, let start = clibpq_value(result, row, column) else { return .null }
    let bytes = UnsafeRawBufferPointer(start: start, count: Int(clibpq_length(result, row, column)))
    switch clibpq_type(result, column) {
    case 16: return .integer(bytes.first == 0 ? 0 : 1)
    case 17: return .blob(Data(bytes))
    case 20, 21, 23:
      let bits = bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
      let unused = 64 - 8 * bytes.count
      return .integer(Int64(bitPattern: bits << UInt64(unused)) >> Int64(unused))
    case 25, 18, 19, 1043: return .text(String(decoding: bytes, as: UTF8.self))
    // `void`, of functions that return nothing.
    default: return .null
    }
  }

  // MARK: Notifications

  /// Reads what has arrived, without waiting.
  func listen() throws(SessionFailure) -> [String] {
    guard !isLost, clibpq_consume(connection) == 1 else { throw lost() }
    // A server that shuts down sends a message between two statements.
    if clibpq_is_busy(connection) == 0, Int(clibpq_status(connection)) != CLIBPQ_CONNECTION_OK { throw lost() }
    drainNotifications()
    defer { heard = [] }
    return heard
  }

  private func drainNotifications() {
    while let notification = clibpq_notification(connection) {
      if let payload = notification.pointee.extra { heard.append(String(cString: payload)) }
      clibpq_free(notification)
    }
  }

  // MARK: Waiting

  private func wait(for events: Int32, until deadline: Duration) throws(SessionFailure) {
    while true {
      let left = deadline - uptime()
      guard left > .zero else { throw lost("no answer in time") }
      let milliseconds = left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000 + 1
      var wanted = pollfd(fd: clibpq_socket(connection), events: Int16(events), revents: 0)
      let count = poll(&wanted, 1, Int32(clamping: milliseconds))
      if count > 0 { return }
      guard count == 0 || errno == EINTR else { throw lost("poll(2) failed") }
    }
  }

  private func lost(_ reason: String? = nil) -> SessionFailure {
    isLost = true
    return .lost(reason ?? Self.plain(String(cString: clibpq_error(connection))))
  }

  /// One line.
  private static func plain(_ text: String) -> String {
    text.split(whereSeparator: \.isWhitespace).joined(separator: " ").asSentence(limit: longestMessage)
  }
}
