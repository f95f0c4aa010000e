import BrokerAPI

/// A method with its parameters.
struct Request {
  let method: String
  /// The line for a number, with the newline.
  let line: (Int64) -> [UInt8]
  /// Whether the text is taken as the answer to the request of that number. Otherwise it is read as JSON.
  let take: (UnsafeBufferPointer<UInt8>, Int64) -> Bool

  init(_ method: String, _ params: JSON) {
    self.method = method
    line = { OutgoingCall(method: method, params: params, id: .number("\($0)")).line() }
    take = { _, _ in false }
  }

  private static let token = "token.get"
  private static let (begin, middle) = (#"{"jsonrpc":"2.0","id":"#, #","method":"\#(token)","params":"#)
  /// Bytes of a line that are not its parameters.
  private static let lineOverhead = 80

  /// A `token.get`, whose usual answer is taken.
  init(tokenFor params: JSON, take: @escaping (Token) -> Void) {
    let text = params.serialized()
    method = Self.token
    line = { id in
      var line: [UInt8] = []
      line.reserveCapacity(text.count + Self.lineOverhead)
      line.append(contentsOf: Self.begin.utf8)
      line.append(contentsOf: "\(id)".utf8)
      line.append(contentsOf: Self.middle.utf8)
      line += text
      line.append(contentsOf: [UInt8(ascii: "}"), UInt8(ascii: "\n")])
      return line
    }
    self.take = { answer, id in
      guard let token = PlainToken.parse(answer, answering: id) else { return false }
      take(token)
      return true
    }
  }
}
