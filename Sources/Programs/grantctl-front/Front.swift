import BrokerSocket
import Glibc

/// `grantctl token` without the slow parts of the full program's start: an argument parser, an event loop, threads,
/// Foundation. It prints a token or nothing, and leaves every other case to the full program (decision 50).
///
/// Its process lives for a millisecond. A generic type that the runtime has to make, such as a dictionary's storage, takes a
/// tenth of that, and so does the start of Swift's concurrency: hence the plain loops, and no BrokerAPI.
enum Front {
  /// How long the front waits for the answer. After that the full program waits: it says at a terminal what for.
  private static let patience = Duration(microseconds: 250_000)
  /// Bytes of an answer. A longer one is left to the full program.
  private static let longestAnswer = 64 * 1024

  static func run() -> Never {
    // Otherwise the socket would replace a closed standard stream.
    guard fcntl(0, F_GETFD) >= 0, fcntl(1, F_GETFD) >= 0, fcntl(2, F_GETFD) >= 0,
      let request = TokenArguments(Array(CommandLine.arguments.dropFirst())), let choice = choice(request.wish)
    else { FullProgram.run(leaving: nil) }
    // Tokens are in its memory for a while. No limit that the caller could lift again; a program that `exec` starts has
    // its own.
    var none = rlimit(rlim_cur: 0, rlim_max: 0)
    _ = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
    guard let socket = ask(request, choice)
    else { FullProgram.run(leaving: nil) }
    guard let line = socket.peekLine(atMost: longestAnswer, within: patience), let answer = TokenAnswer(line),
      Output.write(answer.text(isHeader: request.isHeader))
    else { FullProgram.run(leaving: socket.descriptor) }
    exit(0)
  }

  /// As the full program chooses it. Nil where the environment has bytes that programs read differently.
  private static func choice(_ wish: SocketChoice.Wish) -> SocketChoice? {
    var isPlain = true
    let choice = SocketChoice(
      wish,
      environment: { name in
        guard let value = getenv(name).map({ String(cString: $0) }) else { return nil }
        if !value.isEmpty, !Plain.isText(value) { isPlain = false }
        return value
      }, uid: getuid(), exists: { access($0, F_OK) == 0 })
    return isPlain ? choice : nil
  }

  /// Nil: nothing was asked.
  private static func ask(_ request: TokenArguments, _ choice: SocketChoice) -> ConnectedSocket? {
    do throws(ConnectFailure) {
      let socket = try ConnectedSocket.connect(path: choice.path, within: patience) { uid in
        choice.isNamed || ServerOwner.isExpected(uid, at: choice.path)
      }
      return socket.send(request.line) ? socket : nil
    } catch {
      return nil
    }
  }
}
