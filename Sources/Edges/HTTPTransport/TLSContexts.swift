import Broker
import NIOCore
import NIOSSL
import OAuth
import Synchronization

/// TLS contexts, one for each choice of certificates and shared by its connections. Making one takes milliseconds. One lives as
/// long as a connection of it, that of the system's authorities for good.
final class TLSContexts: Sendable {
  private struct Weak {
    var stamp: SystemAuthorities.Stamp?
    weak var context: NIOSSLContext?
  }

  private struct State {
    var plain: (stamp: SystemAuthorities.Stamp?, context: NIOSSLContext)?
    var chosen: [TLSChoice: Weak] = [:]
  }

  private let state = Mutex(State())

  func context(of choice: TLSChoice?) throws(TransportError) -> NIOSSLContext {
    let made = state.withLock { state -> Result<NIOSSLContext, TransportError> in
      do throws(TransportError) {
        guard let choice else { return .success(try Self.plain(&state)) }
        // An update of the system's authorities counts for the next connection.
        let stamp = SystemAuthorities.stamp
        if let known = state.chosen[choice], known.stamp == stamp, let context = known.context {
          return .success(context)
        }
        let new = try Self.make(choice.configuration())
        state.chosen = state.chosen.filter { $0.value.context != nil }
        state.chosen[choice] = Weak(stamp: stamp, context: new)
        return .success(new)
      } catch {
        return .failure(error)
      }
    }
    return try made.get()
  }

  private static func plain(_ state: inout State) throws(TransportError) -> NIOSSLContext {
    let stamp = SystemAuthorities.stamp
    if let known = state.plain, known.stamp == stamp { return known.context }
    let new = try make(SystemAuthorities.configuration())
    state.plain = (stamp, new)
    return new
  }

  private static func make(_ configuration: TLSConfiguration) throws(TransportError) -> NIOSSLContext {
    var configuration = configuration
    // RFC 9325 §3.1.1: nothing older may be negotiated.
    configuration.minimumTLSVersion = .tlsv12
    // HTTP/2 would carry all of a provider's requests over one connection: where that is dead, as after a change of the
    // network, every refresh and every probe would wait on it.
    configuration.applicationProtocols = ["http/1.1"]
    // How long a close waits for the peer's close_notify.
    configuration.shutdownTimeout = .seconds(1)
    do {
      return try NIOSSLContext(configuration: configuration)
    } catch {
      throw TransportError(
        .notSent,
        "no secure connection is tried: tls_certificate_file and its key do not belong together, or cannot be used",
        cause: .tls)
    }
  }
}
