import Broker
import Foundation
import NIOCore
import NIOHTTP1
import OAuth
import Testing

@testable import HTTPTransport

/// Answers that are compressed although the request asked for `identity`.
@Suite struct ContentCodingTests {
  private static let text = #"{"access_token":"a","refresh_token":"rotated"}"#
  private static let gzip = "H4sIAAAAAAACA6tWSkxOTi0uji/Jz07NU7JSSlTSUSpKTStKLc6AixXllySWpKYo1QIAnNZMLS4AAAA="
  private static let zlib = "eJyrVkpMTk4tLo4vyc9OzVOyUkpU0lEqSk0rSi3OgIsV5ZcklqSmKNUCAH+jEF4="
  private static let raw = "q1ZKTE5OLS6OL8nPTs1TslJKVNJRKkpNK0otzoCLFeWXJJakpijVAgA="
  private static let members =
    "H4sIAAAAAAACA6tWSkxOTi0uji/Jz07NU7JSSlTSAQBOyE6yFAAAAB+LCAAAAAAAAgNTKkpNK0otzogvyc9OzVOyUirKL0ksSU1RqgUASYcUGBoAAAA="

  private func response(_ body: Data, _ codings: [String]) -> HTTPResponse {
    HTTPResponse(status: 200, headers: codings.map { .init("Content-Encoding", $0) }, body: body)
  }

  private func decoded(_ base64: String, _ codings: [String]) throws -> HTTPResponse {
    try ContentCoding.decoded(response(try #require(Data(base64Encoded: base64)), codings), limit: 1 << 20)
  }

  private func kind(_ body: Data, _ codings: [String], limit: Int = 1 << 20) -> TransportError.Kind? {
    do throws(TransportError) {
      _ = try ContentCoding.decoded(response(body, codings), limit: limit)
      return nil
    } catch {
      return error.kind
    }
  }

  @Test(
    "gzip and deflate are decoded, and the header is removed",
    arguments: [
      (gzip, ["gzip"]), (gzip, ["X-GZIP"]), (gzip, ["identity", "gzip"]), (zlib, ["deflate"]), (raw, ["deflate"]),
      (members, ["gzip"]),
    ])
  func decodes(_ base64: String, _ codings: [String]) throws {
    let response = try decoded(base64, codings)
    #expect(String(decoding: response.body, as: UTF8.self) == Self.text)
    #expect(response.header("Content-Encoding") == nil)
  }

  @Test("several codings are decoded from the last one applied")
  func several() throws {
    let once = try #require(Data(base64Encoded: Self.gzip))
    #expect(kind(once, ["gzip, gzip"]) == .unreadable)
    #expect(kind(once, ["gzip, gzip, gzip, gzip"]) == .unreadable)
    #expect(try decoded(Self.gzip, ["identity, gzip"]).body == Data(Self.text.utf8))
  }

  @Test("an unknown coding and damaged data are errors that name the coding")
  func unreadable() throws {
    let plain = Data(Self.text.utf8)
    for coding in ["br", "zstd", "gzip", "deflate"] { #expect(kind(plain, [coding]) == .unreadable) }
    let error = #expect(throws: TransportError.self) {
      try ContentCoding.decoded(response(plain, ["br"]), limit: 1 << 20)
    }
    #expect(error?.message.contains("br") == true)
    var damaged = try #require(Data(base64Encoded: Self.gzip))
    damaged[damaged.count - 6] ^= 1
    #expect(kind(damaged, ["gzip"]) == .unreadable)
  }

  @Test("data after a whole gzip member that are not another member are ignored")
  func padded() throws {
    let body = try #require(Data(base64Encoded: Self.gzip))
    for padding in [Data(repeating: 0, count: 16), Data("padding".utf8)] {
      let decoded = try ContentCoding.decoded(response(body + padding, ["gzip"]), limit: 1 << 20)
      #expect(decoded.body == Data(Self.text.utf8))
    }
  }

  @Test("the decoded body has a limit")
  func limit() throws {
    let body = try #require(Data(base64Encoded: Self.gzip))
    #expect(kind(body, ["gzip"], limit: Self.text.utf8.count) == nil)
    #expect(kind(body, ["gzip"], limit: Self.text.utf8.count - 1) == .tooLarge)
  }

  @Test("a body without coding, and an empty one, are unchanged")
  func plain() throws {
    for codings in [[], ["identity"]] { #expect(kind(Data(Self.text.utf8), codings) == nil) }
    #expect(kind(Data(), ["gzip"]) == nil && kind(Data(), ["br"]) == nil)
  }

  @Test("a compressed answer without its end is decoded up to that point")
  func cutOff() throws {
    let whole = try #require(Data(base64Encoded: Self.gzip))
    // Without the checksum and the length (RFC 1952 §2.3.1).
    let response = try ContentCoding.decoded(response(whole.dropLast(8), ["gzip"]), limit: 1 << 20)
    #expect(String(decoding: response.body, as: UTF8.self) == Self.text)
  }

  @Test("an answer for a caller is returned unchanged if it cannot be decoded")
  func passedOn() throws {
    for (mustDecode, isThrown) in [(true, true), (false, false)] {
      let arrived = ArrivedAnswer(limit: 1 << 20, mustDecode: mustDecode)
      arrived.begin(.init(version: .http1_1, status: .ok, headers: ["Content-Encoding": "br"]))
      try arrived.add(ByteBuffer(string: Self.text))
      do throws(TransportError) {
        #expect(try arrived.ended?.header("Content-Encoding") == "br")
        #expect(!isThrown)
      } catch {
        #expect(isThrown)
      }
    }
  }
}
