import AsyncClient
import BlockingClient
import BrokerAPI

/// Waits for the end of a login, and for input of the user during this time.
struct LoginWatch: Sendable {
  /// What can happen.
  private enum LoginEvent: Sendable {
    /// `login.wait` said something other than `pending`.
    case answered(Result<JSON, SocketClientError>)
    /// The sign-in is finished, and the broker waits for something.
    case waits(String)
    /// The warnings of a login that is pending.
    case warned([String])
    case typed(String)
    case inputEnded
    case interrupted
    case tick
    /// The user may see an error page.
    case late
    /// The person's `--timeout`.
    case timedOut
    /// The login's own end.
    case expired
  }

  /// Seconds of one `login.wait`.
  private static let round = 60.0
  /// A `login.wait` may be late by so much.
  private static let grace = Duration.seconds(10)
  /// A sign-in without a problem may take as long.
  private static let usual = Duration.seconds(20)
  /// Between two of them.
  private static let pause = Duration.milliseconds(100)

  let flow: LoginFlow
  let login: LoginFlow.Waiting
  let progress: Progress

  private var shell: Shell { flow.shell }
  private var terminal: Terminal { flow.terminal }
  private var reads: Bool { login.place?.reads ?? false }

  func result() async throws(Failure) -> JSON {
    let (events, feed) = AsyncStream.makeStream(of: LoginEvent.self)
    var tasks = sources(feed)
    defer { for task in tasks { task.cancel() } }
    var answers = flow.given
    var question: LoginQuestion?
    var isReading = reads
    // Whether the broker has taken an address. A line that is typed after that answers the broker's next question.
    var handed = CallbackResult.no
    var waits: String?
    var (typed, isInputOver) = ([String](), false)
    var warned: Set<String> = []
    for await event in events {
      var next: LoginStep?
      switch event {
      case .tick:
        if question == nil { progress.draw(now: shell.now) }
        continue
      case .waits(let reason):
        if waits == nil { terminal.note(SafeText.line("Signed in. Waiting for \(reason)")) }
        waits = reason
      case .expired where waits != nil: continue
      case .warned(let warnings):
        for warning in warnings where question == nil && warned.insert(warning).inserted {
          progress.end()
          terminal.note(SafeText.line("warning: \(warning)"))
        }
        continue
      case .late:
        if question == nil { advise() }
        continue
      case .answered(.failure(let error)): throw await flow.stillThere(Failure(error), error, login.id)
      case .answered(.success(let result)):
        progress.end()
        next = try await flow.answer(result, &answers)
      case .typed(let line):
        if question != nil || handed == .done {
          typed.append(line)
        } else {
          let result = await hand(line)
          if result != .no { handed = result }
        }
      case .inputEnded where question != nil: throw flow.needsPerson(answers.last, login.id)
      // A person who has come so far is not hurried.
      case .expired where question != nil: continue
      case .inputEnded where login.place?.isManual != true || handed != .no: isInputOver = true
      case .interrupted, .timedOut, .expired, .inputEnded: throw await ended(event, waits)
      }
      repeat {
        switch next {
        case nil: break
        case .done(let result): return result
        case .wait:
          question = nil
          tasks.append(Task { await pollAgain(feed) })
        case .ask(let asked):
          question = asked
          terminal.ask(asked.prompt)
          if !isReading { tasks.append(reading(feed)) }
          isReading = true
        }
        guard let asked = question, !typed.isEmpty else { break }
        next = try await flow.handle(typed.removeFirst(), for: asked, &answers)
      } while true
      if question != nil, isInputOver { throw flow.needsPerson(answers.last, login.id) }
    }
    throw Failure(.interrupted, "interrupted")
  }

  /// Why it ends before the user is done. The login ends with it, unless it only waits for the disk.
  private func ended(_ event: LoginEvent, _ waits: String?) async -> Failure {
    if let waits {
      return Failure(
        .temporarilyUnavailable, "the sign-in is not saved yet: grantd waits for \(waits)",
        hints: ["Wait for it with: \(shell.command("login continue \(ShellWord.quoted(login.id))"))"])
    }
    if !login.isJoined { await flow.cancel(login.id) }
    let again = flow.continuation(login.provider, login.account)
    let advice = login.advice.map { [$0] } ?? []
    return switch event {
    case .interrupted: LoginFlow.interrupted(isJoined: login.isJoined, hints: [again] + advice)
    case .inputEnded: Failure(.loginFailed, "no pasted URL completes the login", hints: [again])
    case .timedOut, .expired, .answered, .waits, .warned, .typed, .tick, .late:
      Failure(
        .loginFailed, "the login was not completed in time", hints: advice + [again])
    }
  }

  private func advise() {
    guard let advice = login.advice else { return }
    progress.end()
    let columns = terminal.isErrTTY ? max(24, terminal.screen?.columns ?? 80) : .max
    for line in SafeText.wrapped(SafeText.line(advice), columns: columns) { terminal.note(line) }
    progress.draw(now: shell.now)
  }

  // MARK: Sources

  private func sources(_ feed: AsyncStream<LoginEvent>.Continuation) -> [Task<Void, Never>] {
    login.interrupts.handle { feed.yield(.interrupted) }
    let left = Duration.seconds(max(0, login.expiresAt - shell.now)) + Self.grace
    var tasks = [
      Task { await poll(flow.client, login.place?.destination, feed) },
      Task { if (try? await Task.sleep(for: left)) != nil { feed.yield(.expired) } },
    ]
    if let timeout = shell.settings.timeout {
      tasks.append(Task { if (try? await Task.sleep(for: .seconds(timeout))) != nil { feed.yield(.timedOut) } })
    }
    if login.advice != nil {
      tasks.append(Task { if (try? await Task.sleep(for: Self.usual)) != nil { feed.yield(.late) } })
    }
    if progress.isDrawn {
      tasks.append(Task { while (try? await Task.sleep(for: Progress.step)) != nil { feed.yield(.tick) } })
    }
    if reads { tasks.append(reading(feed)) }
    return tasks
  }

  private func reading(_ feed: AsyncStream<LoginEvent>.Continuation) -> Task<Void, Never> {
    let lines = terminal.lines()
    return Task {
      for await line in lines { feed.yield(.typed(line)) }
      feed.yield(.inputEnded)
    }
  }

  /// - Parameter opened: the place at which the user signs in, for the broker.
  private func poll(
    _ client: SocketClient, _ opened: LoginWait.Opened?, _ feed: AsyncStream<LoginEvent>.Continuation
  ) async {
    // A login that was started before may be waiting for something already.
    let first = login.offered == nil ? 0 : Self.round
    var params = LoginWait.Params(login_id: login.id, timeout: first, opened: opened)
    repeat {
      do throws(SocketClientError) {
        let result = try await client.call(
          method: LoginWait.name, params: JSON(encoding: params), timeout: .seconds(Self.round) + Self.grace)
        (params.opened, params.timeout) = (nil, Self.round)
        if let warnings = result["warnings"]?.array?.compactMap(\.string), !warnings.isEmpty {
          feed.yield(.warned(warnings))
        }
        if result["state"]?.string != LoginState.pending.rawValue { return _ = feed.yield(.answered(.success(result))) }
        if let reason = result["waiting_for"]?.string { feed.yield(.waits(reason)) }
      } catch {
        return _ = feed.yield(.answered(.failure(error)))
      }
    } while (try? await Task.sleep(for: Self.pause)) != nil
  }

  /// The broker may have closed the connection of before, while nothing was asked.
  private func pollAgain(_ feed: AsyncStream<LoginEvent>.Continuation) async {
    guard let client = try? await shell.connect() else { return _ = feed.yield(.answered(.failure(.disconnected))) }
    await poll(client, nil, feed)
  }

  /// What became of a pasted address.
  private enum CallbackResult {
    /// It changes nothing: the person may paste another.
    case no
    /// It leads on to another page, whose address may be pasted.
    case leadsOn
    case done
  }

  /// Hands a pasted address over.
  private func hand(_ line: String) async -> CallbackResult {
    let address = line.filter { !$0.isWhitespace }
    guard !address.isEmpty else { return .no }
    do throws(SocketClientError) {
      let taken = try await flow.client.call(LoginHandleCallback.self, .init(url: address), timeout: Shell.patience)
      if let next = taken.next_url {
        let user = flow.places.otherUser
        if flow.places.isBrowserWanted, await shell.openBrowser(next, to: "continue", of: user) { return .leadsOn }
        shell.show(next, to: "continue")
        return .leadsOn
      } else if !taken.handled {
        terminal.note("That URL does not match a pending login. Copy the complete URL, and paste it again.")
        return .no
      }
      return .done
    } catch {
      switch error {
      // The login itself has ended: `login.wait` says how.
      case .rpc(let error) where ExitStatus(error) == .loginFailed: return .done
      case .rpc, .timedOut, .malformed, .disconnected, .notRunning, .permissionDenied, .foreignServer:
        terminal.note("That URL was refused: \(SafeText.line(error.description))")
        return .no
      }
    }
  }
}
