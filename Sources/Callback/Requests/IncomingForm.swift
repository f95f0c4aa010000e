import FoundationEssentials
import NIOCore

/// The body of a request that is wanted, as it comes in. A class, so that many small pieces do not copy what is there.
final class IncomingForm {
  enum Purpose {
    /// A provider's logout token.
    case logout(provider: String)
    /// The fragment of the address where the browser is (RFC 6749 §4.2.2: the same format).
    case fragment(url: String)
  }

  let purpose: Purpose
  private(set) var bytes = Data()
  /// Bytes.
  private let limit: Int

  init(_ purpose: Purpose, limit: Int) {
    self.purpose = purpose
    self.limit = limit
  }

  /// False: it is too large, and nothing was added.
  func append(_ more: ByteBuffer) -> Bool {
    guard more.readableBytes <= limit - bytes.count else { return false }
    bytes.append(contentsOf: more.readableBytesView)
    return true
  }

  /// The address with the fragment, as the browser had it. Nil: no browser writes one like this (URL Standard, fragment
  /// percent-encode set).
  func address(_ url: String) -> String? {
    guard bytes.allSatisfy({ (0x21...0x7e).contains($0) && !"<>\"`".utf8.contains($0) }) else { return nil }
    return bytes.isEmpty ? url : "\(url)#\(String(decoding: bytes, as: UTF8.self))"
  }
}
