import AsyncHTTPClient
import Broker
import FoundationEssentials
import NIOCore
import NIOHTTP1
import OAuth
import Synchronization

/// What has arrived of an answer. A server that names too large a length, or ends the connection without a word of HTTP or TLS,
/// takes nothing from it: a JSON object that is there to its last brace is whole, as no part of one is an object.
final class ArrivedAnswer: Sendable {
  private let limit: Int
  private let answer = Mutex<HTTPResponse?>(nil)

  /// - Parameter limit: the largest body, in bytes.
  init(limit: Int) {
    self.limit = limit
  }

  /// Reads it to its end, or to where it ends too early and is whole.
  func read(_ response: HTTPClientResponse) async throws -> HTTPResponse {
    let head = HTTPResponse(
      status: Int(response.status.code), headers: response.headers.map { .init($0.name, $0.value) }, body: Data())
    answer.withLock { $0 = head }
    do {
      for try await part in response.body { try add(part) }
      return answer.withLock { $0 } ?? head
    } catch let error as TransportError {
      throw error
    } catch {
      guard let answer = whole else { throw error }
      return answer
    }
  }

  private func add(_ part: ByteBuffer) throws {
    try answer.withLock { answer in
      guard (answer?.body.count ?? 0) + part.readableBytes <= limit else {
        throw TransportError(.tooLarge, "the answer is larger than \(limit) bytes")
      }
      answer?.body.append(contentsOf: part.readableBytesView)
    }
  }

  /// Nil while it may go on.
  var whole: HTTPResponse? {
    guard let answer = answer.withLock({ $0 }), JSONValue.lenient(answer.body)?.value.members != nil else { return nil }
    return answer
  }
}
