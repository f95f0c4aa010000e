import BrokerAPI
import BrokerSocket
import Glibc

/// Why a message was not answered, for the client and for the log.
struct BridgeProblem: Error, Equatable {
  /// JSON-RPC 2.0 §5.1.
  private static let internalError: Int64 = -32603
  private static let longestText = 512

  var code = Self.internalError
  var message: String
  var hint: String?
  var reason: String?
  /// Whether it may pass by itself, as during a restart of the broker.
  var mayPass = false

  init(_ message: String, hint: String? = nil) {
    self.message = message
    self.hint = hint
  }

  static let lost = BridgeProblem(
    "the connection ended before the answer", hint: "The request may have been carried out. Check that before a retry.")
  static let sessionEnded = BridgeProblem("the server has ended the session", hint: "Start the client again.")
  static let tooLong = BridgeProblem(
    "an answer is longer than \(MCPBridge.Limit.message >> 20) MiB", hint: "Request less at a time.")

  static func noAnswer(_ head: AnswerReader.Head) -> BridgeProblem {
    BridgeProblem("the server answers a request with HTTP \(head.status) and no message")
  }

  init(_ failure: ConnectFailure, at path: String) {
    switch failure {
    case .notRunning:
      self.init(
        "the broker does not serve HTTP at \(path)",
        hint: "Start it: `\(SocketChoice.startUser)`. A system's broker needs [http] with unix = \"http.sock\".")
      mayPass = true
    case .permissionDenied: self.init("the socket \(path) does not admit this user")
    case .foreignServer(let uid): self.init("the server at \(path) runs as uid \(uid), not as root or as you")
    case .timedOut, .disconnected:
      self.init("the broker at \(path) does not accept the connection", hint: "Try again later.")
      mayPass = true
    }
  }

  init(_ failure: Failure) {
    self.init(failure.message, hint: failure.hints.first)
    if let rpc = failure.rpc {
      code = rpc.reason.map { Int64($0.code) } ?? Self.internalError
      reason = rpc.reason?.rawValue
      hint = rpc.hint ?? rpc.reason?.defaultHint ?? hint
    }
    mayPass = failure.rpc == nil || failure.rpc?.reason == .shuttingDown
  }

  /// An HTTP error of the broker or the server.
  init(_ head: AnswerReader.Head, _ body: [UInt8]) {
    let json = try? JSON.parse(body)
    let words = json?["message"]?.string ?? json?["error_description"]?.string ?? json?["error"]?.string
    self.init("HTTP \(head.status)" + (words.map { ": \(SafeText.line(String($0.prefix(Self.longestText))))" } ?? ""))
    hint = json?["hint"]?.string.map { SafeText.line(String($0.prefix(Self.longestText))) }
    if let named = json?["error"]?.string.flatMap(ErrorReason.init(rawValue:)) {
      (code, reason) = (Int64(named.code), named.rawValue)
    }
  }

  var line: String { [message, hint].compactMap(\.self).joined(separator: ". ") }

  /// Whether a text can be the value of a header.
  static func isHeader(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.count <= 1024 && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
  }
}

/// The time of the bridge's threads.
enum Bridge {
  static func uptime() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_BOOTTIME, &time)
    return .seconds(Int64(time.tv_sec)) + .nanoseconds(Int64(time.tv_nsec))
  }

  static func sleep(_ span: Duration) {
    let parts = span.components
    var time = timespec(tv_sec: Int(parts.seconds), tv_nsec: Int(parts.attoseconds / 1_000_000_000))
    var left = timespec()
    while nanosleep(&time, &left) != 0, errno == EINTR { time = left }
  }
}
