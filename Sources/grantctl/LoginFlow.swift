import BrokerAPI
import UnixSocket

/// One login, from its start to its end, as a person sees it.
struct LoginFlow: Sendable {
  /// What can happen while we wait for the person.
  private enum Happening: Sendable {
    /// `login.wait` said something other than `pending`.
    case answered(Result<JSON, SocketClientError>)
    case pasted(String)
    case inputEnded
    case interrupted
    case tick
    /// The person's `--timeout`, or the login's own end.
    case timedOut
  }

  /// Seconds of one `login.wait`.
  private static let round = 60.0
  /// A `login.wait` may be late by so much.
  private static let grace = Duration.seconds(10)
  /// Between two of them.
  private static let pause = Duration.milliseconds(100)
  private static let ending = Duration.seconds(5)

  let shell: Shell
  let client: SocketClient
  let isBrowserWanted: Bool
  var qr = QRWish.auto

  /// Where a person can sign in, of what the broker offers.
  private enum Place {
    case browser(String)
    case manual(String)
    case device(DevicePage)

    init?(_ destination: Destination) {
      switch (destination.kind, destination.url) {
      case ("browser", let url?): self = .browser(url)
      case ("manual", let url?): self = .manual(url)
      case ("device", _):
        guard let page = DevicePage(destination) else { return nil }
        self = .device(page)
      default: return nil
      }
    }
  }

  private var terminal: Terminal { shell.terminal }

  func run(_ params: LoginStart.Params) async throws(Failure) {
    let login = try await shell.ask(LoginStart.self, params, on: client).value()
    for warning in login.warnings.flatMap(SafeText.lines) { terminal.note("warning: \(warning)") }
    guard let place = login.destinations.lazy.compactMap(Place.init).first else {
      await cancel(login)
      throw Failure(
        .failure, "the broker offers no way to sign in that grantctl knows",
        hints: ["grantctl and grantd may be of different versions: `grantctl version`."])
    }
    let (reads, isManual, expiresAt) = present(place, of: login, provider: params.provider)
    let progress = Progress(terminal: terminal, expiresAt: expiresAt, isQuiet: reads)
    progress.begin()
    let result: JSON
    do throws(Failure) {
      result = try await wait(for: login, reads: reads, isManual: isManual, progress)
      progress.end()
    } catch {
      progress.end()
      throw error
    }
    try conclude(result, params)
  }

  /// Brings the place before the person: whether an address is to be pasted, whether there is no other way, and when it
  /// is too late.
  private func present(
    _ place: Place, of login: LoginStart.Result, provider: String
  ) -> (reads: Bool, isManual: Bool, expiresAt: Int64) {
    let purpose = "sign in at \(Cell(provider).text)"
    switch place {
    case .browser(let url):
      let isOpen = shell.show(url, to: purpose, inBrowser: isBrowserWanted)
      let reads = !isOpen && terminal.canAsk && login.destinations.contains { $0.kind == "manual" }
      if reads {
        terminal.note(
          "Where the browser is on another machine, paste the whole address that it ends at here, and press Enter.")
      }
      return (reads, false, login.expires_at)
    case .manual(let url):
      _ = shell.show(url, to: purpose, inBrowser: false)
      terminal.note("Then paste the whole address that it ends at here, and press Enter.")
      return (true, true, login.expires_at)
    case .device(let page):
      page.show(provider: provider, qr, in: shell)
      return (false, false, min(page.expiresAt ?? .max, login.expires_at))
    }
  }

  private func conclude(_ result: JSON, _ params: LoginStart.Params) throws(Failure) {
    if shell.isJSON { return shell.say(result) }
    let account = try Answer<LoginWait>(json: result).value().account
    let name = account?.account ?? params.account ?? params.provider
    let identity = account?.identity.map { " (\($0.bestName))" } ?? ""
    terminal.say(SafeText.line("Signed in: \(name)\(identity) at \(account?.provider ?? params.provider)"))
    terminal.say(SafeText.line("Get a token with: \(shell.command("token \(ShellWord.quoted(name))"))"))
  }

  // MARK: Waiting

  private func wait(
    for login: LoginStart.Result, reads: Bool, isManual: Bool, _ progress: Progress
  ) async throws(Failure) -> JSON {
    let (happenings, feed) = AsyncStream.makeStream(of: Happening.self)
    let sources = sources(of: login, reads: reads, redraws: progress.isDrawn, feed)
    defer { for source in sources { source.cancel() } }
    for await happening in happenings {
      switch happening {
      case .tick: progress.draw(now: shell.now)
      case .answered(.success(let result)):
        if result["state"]?.string == LoginState.completed.rawValue { return result }
        await cancel(login)
        throw Failure(.failure, "the provider asks for something more, which grantctl cannot answer")
      case .answered(.failure(let error)): throw Failure(error)
      case .pasted(let address): await hand(address, progress)
      case .inputEnded where isManual:
        await cancel(login)
        throw Failure(
          .loginFailed, "no address was pasted that completes the login", hints: ["Start again with `grantctl login`."])
      case .inputEnded: break
      case .interrupted:
        await cancel(login)
        throw Failure(.interrupted, "interrupted: the login is cancelled")
      case .timedOut:
        await cancel(login)
        throw Failure(.loginFailed, "nobody signed in in time", hints: ["Start again with `grantctl login`."])
      }
    }
    throw Failure(.interrupted, "interrupted")
  }

  private func sources(
    of login: LoginStart.Result, reads: Bool, redraws: Bool, _ feed: AsyncStream<Happening>.Continuation
  ) -> [Task<Void, Never>] {
    let interrupts = terminal.interrupts()
    let left = Duration.seconds(max(0, login.expires_at - shell.now)) + Self.grace
    let limit = shell.settings.timeout.map { min(left, .seconds($0)) } ?? left
    var tasks = [
      Task { await poll(login.login_id, feed) },
      Task { for await _ in interrupts { feed.yield(.interrupted) } },
      Task { if (try? await Task.sleep(for: limit)) != nil { feed.yield(.timedOut) } },
    ]
    if redraws {
      tasks.append(Task { while (try? await Task.sleep(for: Progress.step)) != nil { feed.yield(.tick) } })
    }
    if reads {
      let lines = terminal.lines()
      tasks.append(
        Task {
          for await line in lines { feed.yield(.pasted(line)) }
          feed.yield(.inputEnded)
        })
    }
    return tasks
  }

  private func poll(_ id: String, _ feed: AsyncStream<Happening>.Continuation) async {
    let params = JSON(encoding: LoginWait.Params(login_id: id, timeout: Self.round))
    repeat {
      do throws(SocketClientError) {
        let result = try await client.call(
          method: LoginWait.name, params: params, timeout: .seconds(Self.round) + Self.grace)
        if result["state"]?.string != LoginState.pending.rawValue { return _ = feed.yield(.answered(.success(result))) }
      } catch {
        return _ = feed.yield(.answered(.failure(error)))
      }
    } while (try? await Task.sleep(for: Self.pause)) != nil
  }

  /// Hands a pasted address over. A wrong one changes nothing: the person may paste another.
  private func hand(_ line: String, _ progress: Progress) async {
    let address = line.filter { !$0.isWhitespace }
    guard !address.isEmpty else { return }
    do throws(SocketClientError) {
      let taken = try await client.call(LoginHandleCallback.self, .init(url: address), timeout: Shell.patience)
      if !taken.handled {
        terminal.note("That address belongs to no login here. Copy the whole address, and paste it again.")
      }
    } catch {
      switch error {
      // The login itself has ended: `login.wait` says how.
      case .rpc(let error) where ExitStatus(error) == .loginFailed: break
      case .rpc, .timedOut, .malformed, .disconnected, .notRunning, .permissionDenied:
        terminal.note("That address was not taken: \(SafeText.line(error.description))")
      }
    }
  }

  private func cancel(_ login: LoginStart.Result) async {
    _ = try? await client.call(LoginCancel.self, .init(login_id: login.login_id), timeout: Self.ending)
  }
}
