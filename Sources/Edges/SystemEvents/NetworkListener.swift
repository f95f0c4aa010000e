import CLinux
import Glibc

/// Receives changes of links, addresses and routes from the kernel. First it requests the existing ones, which are not
/// reported.
struct NetworkListener {
  /// Datagrams in one go: who announces more is heard again with the next.
  private static let datagrams = 64
  private static let questions: CInt = 3

  private(set) var descriptor: Int32
  private var view = NetworkView()
  /// The question that is being answered.
  private var question: CInt = 0
  private var buffer = [UInt8](repeating: 0, count: 64 << 10)

  /// Nil, with errno, if the sandbox forbids it.
  init?() {
    descriptor = clinux_route_socket()
    guard descriptor >= 0 else { return nil }
    ask()
  }

  /// Whether something appeared. A socket that fails is closed.
  mutating func read() -> Bool {
    var appeared = false
    for _ in 0..<Self.datagrams where descriptor >= 0 {
      let count = clinux_route_read(descriptor, &buffer, buffer.count)
      if count >= 0 {
        for message in RouteMessage.parse(Array(buffer[..<count])) { if receive(message) { appeared = true } }
        continue
      }
      switch errno {
      case EAGAIN: return appeared
      // Messages were lost, with unknown content.
      case ENOBUFS:
        question = Self.questions
        appeared = true
      default: close()
      }
    }
    return appeared
  }

  mutating func close() {
    guard descriptor >= 0 else { return }
    _ = Glibc.close(descriptor)
    descriptor = -1
  }

  private mutating func receive(_ message: RouteMessage) -> Bool {
    let appeared = view.update(with: message)
    guard question < Self.questions else { return appeared }
    if message == .end {
      question += 1
      ask()
    }
    return false
  }

  /// One question at a time: a second one is refused while the first is being answered.
  private mutating func ask() {
    while question < Self.questions, clinux_route_ask(descriptor, question) != 0 { question += 1 }
  }
}
