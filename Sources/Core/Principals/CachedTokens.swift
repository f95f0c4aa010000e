import Glibc

/// The fast path of one connection: the facts about its caller are kept.
public protocol CachedTokens: AnyObject {
  /// A cached reply to a plain `token.get`, or nil: use ``Dispatcher/respond(to:session:)``. Called on the event loop
  /// that read the request: must not block, and costs less than a microsecond.
  ///
  /// - Parameters:
  ///   - account: the name in UTF-8.
  ///   - scopes: the array of scopes as written; nil: not given.
  func reply(
    account: UnsafeRawBufferPointer, minTTL: Int64?, scopes: UnsafeRawBufferPointer?
  ) -> CachedReply?
}

extension CachedTokens {
  public func reply(account: String, minTTL: Int64? = nil, scopes: String? = nil) -> CachedReply? {
    var (account, list) = (account, scopes ?? "")
    return account.withUTF8 { account in
      list.withUTF8 { list in
        reply(
          account: UnsafeRawBufferPointer(account), minTTL: minTTL,
          scopes: scopes == nil ? nil : UnsafeRawBufferPointer(list))
      }
    }
  }
}

/// A rendered `token.get` result with one hole for `expires_in`:
/// `head` + decimal digits + `tail`, or `head` alone where the expiry is unknown. Head begins with `{`, and the whole is
/// the JSON of ``TokenGet/Result``.
public struct CachedReply: Sendable {
  public var body: Body
  public var expiresIn: Int64?

  /// Made once per token; shared by all replies. It holds the token, and is overwritten at its end.
  public final class Body: Sendable {
    /// Written in `init` and in `deinit` alone, so that threads may read it.
    nonisolated(unsafe) private let bytes: UnsafeMutableRawBufferPointer
    private let headCount: Int

    public init(head: [UInt8], tail: [UInt8]) {
      bytes = .allocate(byteCount: head.count + tail.count, alignment: 1)
      bytes.copyBytes(from: head)
      UnsafeMutableRawBufferPointer(rebasing: bytes[head.count...]).copyBytes(from: tail)
      headCount = head.count
    }

    deinit {
      // A plain assignment to memory that is given back may be left out by the compiler.
      if let start = bytes.baseAddress { explicit_bzero(start, bytes.count) }
      bytes.deallocate()
    }

    /// Without a copy.
    public func withBytes<Result>(
      _ body: (_ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer) -> Result
    ) -> Result {
      body(headBytes, tailBytes)
    }

    private var headBytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[..<headCount]) }
    private var tailBytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[headCount...]) }

    public var head: [UInt8] { Array(headBytes) }
    public var tail: [UInt8] { Array(tailBytes) }
  }

  public init(body: Body, expiresIn: Int64?) {
    self.body = body
    self.expiresIn = expiresIn
  }
}
