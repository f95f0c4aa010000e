import BrokerAPI
import NIOCore
import Principals
import Testing

@testable import HTTPServer
@testable import Loopback

@Suite struct RetainedBytesTests {
  private let share = Share(holder: .user(1000), callerClass: .named)

  private func part(_ count: Int) -> ByteBuffer { ByteBuffer(repeating: 0x78, count: count) }

  @Test("bodies of one user are kept up to the user's limit, and can be sent again only if they are whole")
  func limit() {
    let bytes = RetainedBytes(all: 10_000, perHolder: 3000)
    let sources = (0..<3).map { _ in HTTPRequestBody(length: nil) {} }
    let bodies = sources.map { RetainedBody($0, bytes, share) }
    for source in sources { source.yield(part(1200)) }
    #expect(bytes.used == 2400)
    for body in bodies { #expect(body.next().map { if case .part = $0 { true } else { false } } == true) }
    #expect(bodies.map { $0.rewind() } == [true, true, false])
    #expect(bodies[2].state == .unkept)
    bodies[0].stop()
    #expect(bytes.used == 1200)
    let other = HTTPRequestBody(length: nil) {}
    let kept = RetainedBody(other, bytes, Share(holder: .user(1001), callerClass: .named))
    other.yield(part(3000))
    #expect(bytes.used == 4200 && kept.rewind())
  }

  @Test("a body longer than a mebibyte frees the kept copy") func long() {
    let bytes = RetainedBytes()
    let source = HTTPRequestBody(length: nil) {}
    let body = RetainedBody(source, bytes, share)
    source.yield(part(RetainedBody.longest))
    #expect(bytes.used == RetainedBody.longest)
    source.yield(part(1))
    #expect(bytes.used == 0 && body.state == .tooLong)
  }

  @Test("a dropped request frees the kept copy") func dropped() {
    let bytes = RetainedBytes()
    do {
      let source = HTTPRequestBody(length: nil) {}
      let body = RetainedBody(source, bytes, share)
      source.yield(part(1000))
      #expect(bytes.used == 1000 && body.rewind())
    }
    #expect(bytes.used == 0)
  }
}
