import Foundation
import NIOCore

/// The body of a logout request, as it comes in. A class, so that many small pieces do not copy what is there.
final class LogoutForm {
  let provider: String
  private(set) var bytes = Data()
  /// Bytes.
  private let limit: Int

  init(provider: String, limit: Int) {
    self.provider = provider
    self.limit = limit
  }

  /// False: it is too large, and nothing was added.
  func append(_ more: ByteBuffer) -> Bool {
    guard more.readableBytes <= limit - bytes.count else { return false }
    bytes.append(contentsOf: more.readableBytesView)
    return true
  }
}
