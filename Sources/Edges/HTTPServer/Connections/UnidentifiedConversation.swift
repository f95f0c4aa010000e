import NIOCore
import NIOHTTP1

/// Refuses the requests of a caller that cannot be identified now, since there is no descriptor or memory for it. Without
/// its unit, a rule for it would not match.
final class UnidentifiedConversation: HTTPConversation {
  private static let reply: HTTPReply = {
    var reply = HTTPReply(
      .serviceUnavailable, error: "temporarily_unavailable", "the calling process cannot be identified now",
      hint: "Try again later. If it persists, raise LimitNOFILE= of the broker's service, or free memory.")
    reply.headers.add(name: "Retry-After", value: "1")
    return reply.last()
  }()

  func intake(of head: HTTPRequestHead) -> BodyHandling { .refuse(Self.reply) }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) { exchange.reply(Self.reply) }
}
