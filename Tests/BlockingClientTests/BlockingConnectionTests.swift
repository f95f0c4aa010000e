import BlockingClient
import BrokerAPI
import Glibc
import Testing

@Suite struct BlockingConnectionTests {
  private static let answer = #"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#
  /// For data that are available already.
  private static let soon = Duration.seconds(60)
  private static let brief = Duration.milliseconds(30)

  /// A connection whose other end has sent this, and has closed where that is said.
  private func connection(_ text: String, closes: Bool = false) throws -> (BlockingConnection, other: Int32) {
    var ends: [Int32] = [-1, -1]
    try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
    let bytes = Array(text.utf8)
    try #require(write(ends[1], bytes, bytes.count) == bytes.count)
    if closes { shutdown(ends[1], Int32(SHUT_WR)) }
    return (BlockingConnection(descriptor: ends[0]), ends[1])
  }

  private func outcome(of connection: BlockingConnection, within limit: Duration = soon) -> Result<
    JSON, SocketClientError
  > {
    Result { () throws(SocketClientError) in try connection.reply(to: 1, within: limit) }
  }

  /// The lines that the server sends before it closes, and the outcome for the client.
  private static let table: [(lines: [String], expected: Result<JSON, SocketClientError>)] = {
    let one: JSON = ["a": 1]
    let notification = #"{"jsonrpc":"2.0","method":"event","params":{}}"#
    let refused = RPCError(.overloaded, "no")
    let failed = RPCError(.loginRequired, "no")
    func line(_ id: String, _ error: RPCError) -> String {
      #"{"jsonrpc":"2.0","id":"# + id + #","error":"# + String(decoding: error.json.serialized(), as: UTF8.self) + "}"
    }
    return [
      ([answer], .success(one)), ([notification, answer], .success(one)),
      ([#"{"jsonrpc":"2.0","id":2,"result":{}}"#, answer], .success(one)),
      ([#"{"jsonrpc":"2.0","id":null,"result":{}}"#, answer], .success(one)),
      ([#"{"jsonrpc":"2.0","id":"1","result":{}}"#, answer], .success(one)),
      ([line("null", refused), answer], .failure(.rpc(refused))),
      ([line("1", failed)], .failure(.rpc(failed))),
      (["x", answer], .failure(.malformed("no JSON-RPC message on the line"))), ([], .failure(.disconnected)),
    ]
  }()

  @Test("only the answer to the request is read", arguments: table.indices)
  func replies(row: Int) throws {
    let (lines, expected) = Self.table[row]
    let (connection, other) = try connection(lines.map { $0 + "\n" }.joined(), closes: true)
    defer { close(other) }
    #expect(outcome(of: connection) == expected)
  }

  @Test("a line without an end is not an answer")
  func unended() throws {
    let (connection, other) = try connection(Self.answer, closes: true)
    defer { close(other) }
    #expect(outcome(of: connection) == .failure(.disconnected))
  }

  @Test("a silent server is awaited for the given time, even if it sends other data")
  func timesOut() throws {
    for text in ["", Self.answer, #"{"jsonrpc":"2.0","id":2,"result":{}}"# + "\n"] {
      let (connection, other) = try connection(text)
      defer { close(other) }
      #expect(outcome(of: connection, within: Self.brief) == .failure(.timedOut))
    }
  }

  @Test("calls on one connection have their own ids, and data read ahead are kept")
  func calls() throws {
    let second = #"{"jsonrpc":"2.0","id":2,"result":"two"}"#
    let (connection, other) = try connection(Self.answer + "\n" + second + "\n")
    defer { close(other) }
    #expect(try connection.call(method: "one", within: Self.soon) == ["a": 1])
    #expect(try connection.call(method: "two", params: ["b": 2], within: Self.soon) == "two")
    var sent = [UInt8](repeating: 0, count: 1024)
    let count = read(other, &sent, sent.count)
    #expect(
      String(decoding: sent.prefix(count), as: UTF8.self) == """
        {"jsonrpc":"2.0","id":1,"method":"one"}
        {"jsonrpc":"2.0","id":2,"method":"two","params":{"b":2}}

        """)
  }

  @Test("a socket that cannot be is not running")
  func noSocket() {
    for path in ["", String(repeating: "a", count: 108), "/a\0b", "/nowhere/at/all", "/dev/null/x", "/dev/null"] {
      let error = #expect(throws: SocketClientError.self) {
        try BlockingConnection.connect(path: path, within: Self.soon)
      }
      #expect(error == .notRunning(path))
    }
  }
}
