import Broker
import Glibc
import GrantdConfiguration
import Logging
import NIOPosix
import Systemd
import UnixSocket

/// The socket for units' credentials. If it is unavailable, units that need it do not start; all else is served.
struct CredentialServing: Sendable {
  /// `FileDescriptorName=` of the socket unit.
  static let name = "credentials"

  private let server: CredentialServer
  private let place: String
  private let logger: Logger

  /// - Parameter inherited: the sockets of socket units; without ours the socket is bound next to the other.
  init(
    _ places: Places, _ settings: Settings, _ inherited: [ListenFDs.Listener], _ kept: KeptDescriptors,
    broker: Broker, logger: Logger
  ) {
    let isSystem = places.instance == .system
    let path = places.credentialSocketPath(settings)
    let own = inherited.filter { $0.name == Self.name }.map(\.descriptor)
    place = own.isEmpty ? path : "inherited"
    self.logger = logger
    // A loop apart from the callers': looking who asks costs more than a cached token.
    server = CredentialServer(
      endpoint: own.isEmpty ? .path(path) : .inherited(own), folderMode: isSystem ? 0o755 : 0o700,
      keeper: own.isEmpty ? kept.keeper(Self.name) : nil, waiting: kept.waiting(),
      manager: isSystem ? .system : .user(geteuid()), eventLoop: MultiThreadedEventLoopGroup.singleton.next(),
      logger: logger, onWithheld: { broker.credentialWithheld($0) }
    ) { await broker.credential($0) }
  }

  func start() async {
    do throws(SocketServerError) {
      try await server.start()
      logger.info("serving credentials of units", metadata: ["socket": "\(place)"])
    } catch {
      logger.error(
        "units cannot load credentials: \(error.description)",
        metadata: ["hint": "Everything else is served. Start grantd again once it is out of the way."])
    }
  }

  func drain(deadline: Duration) async { await server.drain(deadline: deadline) }
}
