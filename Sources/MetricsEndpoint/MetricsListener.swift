public import Broker
import Glibc
import Listening
public import Logging
public import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// The metrics over HTTP, for a scraper on this machine: `GET /metrics` and nothing else. It is started once and stopped
/// once; all of it runs on one event loop.
public final class MetricsListener: Sendable {
  public struct Limits: Sendable {
    /// Open at once; a further one is closed unanswered.
    public var connections = 16
    /// Bytes of all that is sent on a connection: one request without a body.
    public var request = 16 * 1024
    /// From the accepted connection to its end, whatever happens on it.
    public var lifetime = Duration.seconds(10)
    /// Connections that the kernel keeps before they are accepted.
    public var backlog: Int32 = 32
    /// Who may connect to a Unix socket: the broker's user and group.
    public var mode: UInt32 = 0o660

    public init() {}
  }

  private let address: MetricsAddress
  private let limits: Limits
  private let loop: any EventLoop
  private let logger: Logger
  private let scrape: @Sendable () async -> String
  private let state = Mutex<(any Channel)?>(nil)
  /// The file of the Unix socket that was bound.
  private let file = Mutex<File?>(nil)
  private let openConnections = OpenConnections()

  /// - Parameter group: one of its loops is used. It has to be a NIOPosix group, and outlives the listener.
  /// - Parameter scrape: the metrics as they are now, as OpenMetrics text.
  public init(
    address: MetricsAddress, limits: Limits = Limits(), group: any EventLoopGroup, logger: Logger,
    scrape: @escaping @Sendable () async -> String
  ) {
    self.address = address
    self.limits = limits
    loop = group.next()
    self.logger = logger
    self.scrape = scrape
  }

  /// Listens, and says where: `http://127.0.0.1:9464/metrics`, or the path of the socket.
  public func start() async throws(MetricsListenerError) -> String {
    do {
      let channel = try await bind()
      state.withLock { $0 = channel }
      switch address {
      case .loopback(let host, let port):
        let port = channel.localAddress?.port ?? port
        return "http://\(host.contains(":") ? "[\(host)]" : host):\(port)/metrics"
      case .unix(let path): return path
      }
    } catch let error as IOError {
      throw MetricsListenerError(address: address, code: error.errnoCode)
    } catch {
      throw MetricsListenerError(address: address, code: EINVAL)
    }
  }

  private func bind() async throws -> any Channel {
    let bootstrap = ServerBootstrap(group: loop, childGroup: loop)
      .serverChannelOption(.backlog, value: limits.backlog)
      .serverChannelInitializer { [logger] channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(AcceptPause(logger))
        }
      }
      .childChannelInitializer { [limits, openConnections, logger, scrape, address] channel in
        guard openConnections.enter(atMost: limits.connections) else {
          logger.debug("a metrics connection was refused: too many at once")
          return channel.close()
        }
        channel.closeFuture.whenComplete { _ in openConnections.leave() }
        return channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          try pipeline.addHandler(BodyLimit(limit: limits.request))
          try pipeline.configureHTTPServerPipeline(withPipeliningAssistance: false, withErrorHandling: false)
          try pipeline.addHandler(RequestHandler(address: address, limits: limits, scrape: scrape))
        }
      }
    switch address {
    case .loopback(let host, let port):
      return try await bootstrap.serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
        .bind(to: SocketAddress(ipAddress: host, port: port)).get()
    case .unix(let path):
      try await removeStale(path)
      let descriptor = try bind(path)
      do {
        // NIO removes no file that it did not make: by the time of the end another program may have bound the path.
        return try await bootstrap.withBoundSocket(descriptor).get()
      } catch {
        removeFile()
        throw error
      }
    }
  }

  private struct File: Equatable {
    let path: String
    let device: dev_t
    let inode: ino_t

    init?(_ path: String) {
      var status = stat()
      guard lstat(path, &status) == 0 else { return nil }
      (self.path, device, inode) = (path, status.st_dev, status.st_ino)
    }
  }

  /// - Returns: a socket that is bound there, with the mode that it is to have.
  private func bind(_ path: String) throws -> Int32 {
    var address = sockaddr_un()
    let bytes = Array(path.utf8)
    guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
      throw IOError(errnoCode: ENAMETOOLONG, reason: "bind")
    }
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    let descriptor = socket(AF_UNIX, kind, 0)
    guard descriptor >= 0 else { throw IOError(errnoCode: errno, reason: "socket") }
    // The file gets this mode, less the umask: never more, not even for a moment. Then what the umask took.
    let isBound =
      fchmod(descriptor, limits.mode) == 0
      && withUnsafePointer(to: address) { address in
        address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          Glibc.bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
      } == 0
    if isBound { file.withLock { $0 = File(path) } }
    guard isBound, chmod(path, limits.mode) == 0 else {
      let code = errno
      close(descriptor)
      removeFile()
      throw IOError(errnoCode: code, reason: "bind")
    }
    return descriptor
  }

  /// That of the socket which was bound here, if it is still that.
  private func removeFile() {
    guard let file = file.withLock({ $0.take() }), File(file.path) == file else { return }
    unlink(file.path)
  }

  /// Removes the socket that a process before left, and nothing else: another program may be listening there.
  private func removeStale(_ path: String) async throws {
    var status = stat()
    guard lstat(path, &status) == 0 else {
      guard errno == ENOENT else { throw IOError(errnoCode: errno, reason: "lstat") }
      return
    }
    guard status.st_mode & S_IFMT == S_IFSOCK else { throw IOError(errnoCode: EEXIST, reason: "no socket") }
    do {
      let probe = ClientBootstrap(group: loop).connectTimeout(.seconds(1))
      try await probe.connect(unixDomainSocketPath: path).get().close()
    } catch let error as IOError where error.errnoCode == ECONNREFUSED {
      guard unlink(path) == 0 || errno == ENOENT else { throw IOError(errnoCode: errno, reason: "unlink") }
      return
    } catch let error as IOError where error.errnoCode == ENOENT {
      return
    } catch let error as IOError where [EACCES, EPERM, EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(error.errnoCode) {
      throw error
    } catch {
      throw IOError(errnoCode: EADDRINUSE, reason: "probe")
    }
    throw IOError(errnoCode: EADDRINUSE, reason: "probe")
  }

  /// Listens no more. Who is connected is answered still, in its time.
  public func stop() async {
    guard let channel = state.withLock({ $0.take() }) else { return }
    try? await channel.close()
    removeFile()
  }
}

/// Why the metrics cannot be had over HTTP.
public struct MetricsListenerError: Error, Sendable, Equatable, CustomStringConvertible {
  public var address: MetricsAddress
  /// The errno.
  public var code: Int32

  public var description: String {
    let place =
      switch address {
      case .loopback(let host, let port): "port \(port) of \(host)"
      case .unix(let path): path
      }
    let hint =
      switch code {
      case EADDRINUSE: "stop the program that has it, or choose another in [metrics] listen"
      case EEXIST: "a file that is not a socket is in the way: move it, or choose another path in [metrics] listen"
      case EACCES, EPERM:
        "choose a port from 1024 up, or a path where grantd may make a socket and none of another user's is, in [metrics] listen"
      default: "see [metrics] listen"
      }
    return "the metrics cannot be served on \(place): \(String(cString: strerror(code))); \(hint)"
  }
}

/// Counts the open connections.
private final class OpenConnections: Sendable {
  private let count = Atomic(0)

  func enter(atMost limit: Int) -> Bool {
    guard count.add(1, ordering: .relaxed).newValue <= limit else {
      leave()
      return false
    }
    return true
  }

  func leave() { count.subtract(1, ordering: .relaxed) }
}
