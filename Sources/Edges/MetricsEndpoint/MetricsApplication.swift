import Broker
public import HTTPServer
import NIOCore
import NIOHTTP1
public import Principals

/// The metrics over HTTP, for a scraper on this machine: only `GET /metrics`.
public struct MetricsApplication: CallerApplication {
  private let scrape: @Sendable () async -> String

  /// - Parameter scrape: the current metrics, as OpenMetrics text.
  public init(scrape: @escaping @Sendable () async -> String) {
    self.scrape = scrape
  }

  /// Any client that can connect may read them.
  public var identifiesCallers: Bool { false }
  public var checks: HTTPHeadChecks { .everybody }

  public func conversation(with caller: Caller?) -> any HTTPConversation { Scrapes(scrape) }
}

private final class Scrapes: HTTPConversation {
  private let scrape: @Sendable () async -> String

  init(_ scrape: @escaping @Sendable () async -> String) {
    self.scrape = scrape
  }

  func intake(of head: HTTPRequestHead) -> BodyHandling {
    let path = head.uri.prefix { $0 != "?" }
    guard path == "/metrics", head.method == .GET || head.method == .HEAD else {
      return .refuse(
        HTTPReply(.notFound, type: "text/plain; charset=utf-8", "There is GET /metrics, and nothing else.\n").last())
    }
    return .whole(atMost: 0)
  }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {
    Task { [scrape] in
      exchange.reply(HTTPReply(.ok, type: OpenMetrics.contentType, await scrape()).last())
    }
  }
}

extension HTTPServer.Limits {
  /// A scraper asks now and then.
  public static var metrics: Self {
    var limits = Self()
    limits.connections = 16
    limits.connectionsPerHolder = 4
    limits.idle = .seconds(10)
    limits.stall = .seconds(5)
    return limits
  }
}
