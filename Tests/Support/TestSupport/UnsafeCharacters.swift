/// Characters that control a terminal, end a line, change the direction of text or are invisible, and safe ones. Every user
/// of `isSafe` runs through all of them: log text, pages, the input of hooks, terminal text and the messages of servers.
public enum UnsafeCharacters {
  public static let all = scalars([
    // C0, DEL and C1.
    0x00...0x1F, 0x7F...0x9F,
    // Direction.
    0x061C...0x061C, 0x200E...0x200F, 0x202A...0x202E, 0x2066...0x2069,
    // Zero width.
    0xAD...0xAD, 0x180E...0x180E, 0x200B...0x200D, 0x2060...0x2064, 0xFEFF...0xFEFF,
    // Letters and a symbol without a shape.
    0x115F...0x1160, 0x2800...0x2800, 0x3164...0x3164, 0xFFA0...0xFFA0,
    // Ends of lines and of paragraphs.
    0x2028...0x2029,
    // Other format characters: shaping, annotations, tags.
    0x206A...0x206F, 0xFFF9...0xFFFB, 0xE0001...0xE0001, 0xE0020...0xE007F,
    // Private use.
    0xE000...0xE001, 0xF8FF...0xF8FF, 0xF0000...0xF0000, 0x10FFFD...0x10FFFD,
    // Unassigned, and no characters at all.
    0x0378...0x0378, 0xE0080...0xE0080, 0xFDD0...0xFDD0, 0xFFFE...0xFFFF, 0x10FFFF...0x10FFFF,
  ])

  public static let safe = scalars([
    // ASCII, Latin-1 with the no-break space.
    0x20...0x7E, 0xA0...0xAC, 0xAE...0xFF,
    // Greek, Hebrew, Arabic, Devanagari, CJK.
    0x03B1...0x03B1, 0x05D0...0x05D0, 0x0627...0x0627, 0x0905...0x0905, 0x6F22...0x6F22,
    // A combining accent, a variation selector and an emoji.
    0x0301...0x0301, 0xFE0F...0xFE0F, 0x1F600...0x1F600,
    // Punctuation and the replacement character.
    0x2010...0x2027, 0x2030...0x205E, 0xFFFD...0xFFFD,
  ])

  private static func scalars(_ ranges: [ClosedRange<UInt32>]) -> [Unicode.Scalar] {
    ranges.flatMap { range in range.compactMap { Unicode.Scalar($0) } }
  }
}
