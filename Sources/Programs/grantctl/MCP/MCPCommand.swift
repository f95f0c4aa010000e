import ArgumentParser
import BrokerAPI
import BrokerSocket
import Dispatch
import Glibc
import Platform
import Synchronization

struct MCPCommand: AccountCommand {
  static let configuration = CommandConfiguration(
    commandName: "mcp", abstract: "Connect an MCP client by stdio to an account's server.",
    usage: "grantctl mcp <account> [<path>] [options]",
    discussion: """
      MCP clients start this: messages on standard input go through the broker to the server (streamable HTTP), answers \
      come on standard output, and logs on standard error. The client gets no token, and [http] may be off. Sessions \
      continue over a restart of the broker and a new sign-in.

      Examples:
        grantctl configure zed notes --stdio --write
        grantctl mcp notes
      """)

  @OptionGroup var named: AccountArgument
  @Argument(help: "The path at the provider's API. Default: its resource.")
  var path: String?
  @OptionGroup var options: GlobalOptions

  private static let readAtOnce = 64 << 10

  func run(in shell: Shell) async throws(Failure) {
    signal(SIGPIPE, SIG_IGN)
    let (account, path, choice) = (named.account, path, shell.choice)
    guard let name = Self.encoded(account) else { throw Failure(.usage, "the account's name cannot be in a path") }
    let bridge = MCPBridge(
      find: {
        Self.waiting { () async -> Result<MCPBridge.Endpoint, BridgeProblem> in
          do throws(Failure) {
            let forward = ForwardURL(
              shell: shell, account: account, path: path, command: "grantctl mcp \(ShellWord.quoted(account))")
            let place = try await forward.resourcePath(optional: false)
            return .success(.init(socket: try await Self.socket(shell), target: "/forward/\(name)\(place)"))
          } catch {
            return .failure(BridgeProblem(error))
          }
        }
      }, from: { choice.isNamed || ServerOwner.isExpected($0, at: choice.path) },
      out: { shell.terminal.writeBytes($0) },
      log: { shell.terminal.note(SafeText.line("grantctl mcp: " + $0)) })
    await withCheckedContinuation { (ended: CheckedContinuation<Void, Never>) in
      let once = Mutex<CheckedContinuation<Void, Never>?>(ended)
      let finish: @Sendable () -> Void = { once.withLock { $0.take() }?.resume() }
      Task {
        for await _ in shell.terminal.interrupts() { break }
        finish()
      }
      let code = OwnThread.start("input") {
        Self.read(bridge)
        finish()
      }
      if code != 0 { finish() }
    }
    // It blocks for two seconds at most, and nothing else runs.
    bridge.end()
  }

  /// The lines of standard input, until it ends.
  private static func read(_ bridge: MCPBridge) {
    var (line, isTooLong) = ([UInt8](), false)
    while true {
      let bytes = [UInt8](unsafeUninitializedCapacity: readAtOnce) { buffer, count in
        repeat { count = Glibc.read(0, buffer.baseAddress, buffer.count) } while count < 0 && errno == EINTR
        count = max(0, count)
      }
      guard !bytes.isEmpty else { break }
      for piece in bytes.split(separator: 0x0A, omittingEmptySubsequences: false).enumerated() {
        if piece.offset > 0 {
          isTooLong ? bridge.receivedTooLong() : bridge.received(line)
          (line, isTooLong) = ([], false)
        }
        if line.count + piece.element.count > MCPBridge.Limit.message {
          (line, isTooLong) = ([], true)
        } else if !isTooLong {
          line += piece.element
        }
      }
    }
    // A last line without its newline.
    if !line.isEmpty { bridge.received(line) }
  }

  /// The broker's socket for HTTP: the one beside its own, else the one that it names.
  private static func socket(_ shell: Shell) async throws(Failure) -> String {
    let own = shell.choice.path
    let start = own.lastIndex(of: "/").map { own.index(after: $0) } ?? own.startIndex
    let name = own[start...].prefix { $0 != "." }
    let beside = own[..<start] + (name == "grantd" ? "http.sock" : "\(name)-http.sock")
    if shell.terminal.files.exists(String(beside)) { return String(beside) }
    let status = try await shell.ask(BrokerStatus.self, NoParams()).value()
    if let listener = (status.listeners ?? []).first(where: { $0.setting == "[http] unix" && $0.state == "ok" }) {
      return listener.address
    }
    throw Failure(
      .configuration, "the broker serves no HTTP on a Unix socket",
      hints: ["An administrator adds [http] with unix = \"http.sock\" to /etc/grantd/grantd.toml and reloads it."])
  }

  /// All characters of an account's name stand for themselves in a path (RFC 3986 §3.3).
  private static func encoded(_ account: String) -> String? {
    account.utf8.allSatisfy { (0x21...0x7E).contains($0) && !"%?#/\\".utf8.contains($0) } ? account : nil
  }

  /// Waits for a task on a thread that is none of Swift's pool.
  private static func waiting<Output: Sendable>(_ work: @escaping @Sendable () async -> Output) -> Output {
    let (box, done) = (Box<Output>(), DispatchSemaphore(value: 0))
    Task {
      let output = await work()
      box.value.withLock { $0 = output }
      done.signal()
    }
    done.wait()
    return box.value.withLock { $0! }
  }

  private final class Box<Output: Sendable>: Sendable {
    let value = Mutex<Output?>(nil)
  }
}
