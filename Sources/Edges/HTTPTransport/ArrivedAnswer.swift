import Broker
import FoundationEssentials
import NIOCore
import NIOHTTP1
import OAuth
import Synchronization

/// The received part of an answer. A server with too large a length, or with an unannounced end, loses nothing: a JSON
/// object that is complete to its last brace is whole, as no part of one is an object.
final class ArrivedAnswer: Sendable {
  private let limit: Int
  private let answer = Mutex<HTTPResponse?>(nil)

  private enum Sending { case waiting, begun, givenUp }
  private let sending = Mutex(Sending.waiting)

  private let mustDecode: Bool

  /// - Parameters:
  ///   - limit: the largest body, in bytes, before and after decoding.
  ///   - mustDecode: an unknown content coding is an error; otherwise such an answer is returned unchanged.
  init(limit: Int, mustDecode: Bool = true) {
    self.limit = limit
    self.mustDecode = mustDecode
  }

  /// Whether the request may be sent. False once it was given up.
  func maySend() -> Bool {
    sending.withLock { sending in
      if sending == .waiting { sending = .begun }
      return sending == .begun
    }
  }

  /// Gives up. Returns whether sending had begun; if not, it never will.
  func giveUp() -> Bool {
    sending.withLock { sending in
      if sending == .waiting { sending = .givenUp }
      return sending == .begun
    }
  }

  func begin(_ head: HTTPResponseHead) {
    let begun = HTTPResponse(
      status: Int(head.status.code), headers: head.headers.map { .init($0.name, $0.value) }, body: Data())
    answer.withLock { $0 = begun }
  }

  func add(_ part: ByteBuffer) throws(TransportError) {
    let fits = answer.withLock { answer in
      guard (answer?.body.count ?? 0) + part.readableBytes <= limit else { return false }
      answer?.body.append(contentsOf: part.readableBytesView)
      return true
    }
    guard fits else { throw TransportError(.tooLarge, "the answer is larger than \(limit) bytes") }
  }

  /// As it was at its end, without its content coding.
  var ended: HTTPResponse? {
    get throws(TransportError) {
      guard let answer = answer.withLock({ $0 }) else { return nil }
      do {
        return try ContentCoding.decoded(answer, limit: limit)
      } catch {
        guard !mustDecode else { throw error }
        return answer
      }
    }
  }

  /// Nil while more may come.
  var whole: HTTPResponse? {
    guard let answer = try? ended, JSON.lenient(answer.body)?.value.dictionary != nil else { return nil }
    return answer
  }
}
