import Broker
import CZlib
import FoundationEssentials
import OAuth

/// Content codings of answers (RFC 9110 §8.4.1). Requests ask for `identity`, but some servers and the proxies before them
/// compress anyway, and an unreadable answer to a refresh loses the refresh token in it.
enum ContentCoding {
  /// More codings on one answer are refused.
  private static let most = 3
  /// What ``inflate(_:windowBits:limit:)`` writes at once.
  private static let chunk = 1 << 16

  /// The answer without its codings.
  ///
  /// - Parameter limit: the largest decoded body, in bytes.
  /// - Throws: a coding is unknown, the body is damaged, or it is larger than `limit`.
  static func decoded(_ response: HTTPResponse, limit: Int) throws(TransportError) -> HTTPResponse {
    let codings = response.headers.filter { $0.name.lowercased() == "content-encoding" }
      .flatMap { $0.value.split(separator: ",") }.map { $0.trimmed.lowercased() }
      .filter { !$0.isEmpty && $0 != "identity" }
    guard !codings.isEmpty, !response.body.isEmpty else { return response }
    guard codings.count <= most else {
      throw TransportError(
        .unreadable, "the answer has \(codings.count) content codings, and \(most) are decoded at most")
    }
    var decoded = response
    for coding in codings.reversed() {
      switch coding {
      case "gzip", "x-gzip": decoded.body = try inflate(decoded.body, coding, [16 + MAX_WBITS], limit)
      // Some servers send the bare data without the zlib format (RFC 9110 §8.4.1.2).
      case "deflate": decoded.body = try inflate(decoded.body, coding, [MAX_WBITS, -MAX_WBITS], limit)
      default:
        throw TransportError(
          .unreadable,
          "the answer is compressed with \(coding.printable(limit: 32)), which the request did not allow and grantd cannot decode"
        )
      }
    }
    decoded.headers.removeAll { $0.name.lowercased() == "content-encoding" }
    return decoded
  }

  /// - Parameter formats: window bits of zlib, tried in their order.
  private static func inflate(
    _ body: Data, _ coding: String, _ formats: [Int32], _ limit: Int
  ) throws(TransportError) -> Data {
    for format in formats {
      switch inflate(body, windowBits: format, limit: limit) {
      case .decoded(let decoded): return decoded
      case .tooLarge: throw TransportError(.tooLarge, "the decompressed answer is larger than \(limit) bytes")
      case .damaged: continue
      }
    }
    throw TransportError(.unreadable, "the answer has Content-Encoding \(coding), and its data are damaged")
  }

  private enum Inflated {
    case decoded(Data), tooLarge, damaged
  }

  /// A body that ends early is decoded as far as it goes: the JSON in it may be whole.
  private static func inflate(_ body: Data, windowBits: Int32, limit: Int) -> Inflated {
    var stream = z_stream()
    guard czlib_inflate_init(&stream, windowBits) == Z_OK else { return .damaged }
    defer { inflateEnd(&stream) }
    var input = [UInt8](body)
    var output = [UInt8](repeating: 0, count: chunk)
    var decoded = Data()
    // Bytes of whole gzip members: some servers add padding after them.
    var whole: Int?
    return input.withUnsafeMutableBufferPointer { input in
      stream.next_in = input.baseAddress
      stream.avail_in = UInt32(input.count)
      while true {
        let (status, written) = output.withUnsafeMutableBufferPointer { output in
          stream.next_out = output.baseAddress
          stream.avail_out = UInt32(output.count)
          let status = CZlib.inflate(&stream, Z_NO_FLUSH)
          return (status, output.count - Int(stream.avail_out))
        }
        guard decoded.count + written <= limit else { return .tooLarge }
        decoded.append(contentsOf: output[..<written])
        switch status {
        case Z_OK where stream.avail_in > 0 || written == output.count: continue
        case Z_OK, Z_BUF_ERROR: return .decoded(decoded)
        case Z_STREAM_END:
          // A gzip body may have several members (RFC 1952 §2.2).
          whole = decoded.count
          guard stream.avail_in > 0, windowBits > MAX_WBITS, inflateReset(&stream) == Z_OK else {
            return .decoded(decoded)
          }
        default: return whole.map { .decoded(decoded.prefix($0)) } ?? .damaged
        }
      }
    }
  }
}
