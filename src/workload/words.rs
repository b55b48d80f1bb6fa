//! 256 short common words.

/// One byte chooses one.
pub const WORDS: [&str; 256] = [
    "the", "and", "for", "are", "but", "not", "you", "all", "any", "can", "had", "her", "was", "one", "our", "out",
    "day", "get", "has", "him", "his", "how", "man", "new", "now", "old", "see", "two", "way", "who", "boy", "did",
    "its", "let", "put", "say", "she", "too", "use", "act", "add", "age", "ago", "air", "arm", "art", "ask", "bad",
    "bag", "bar", "bed", "bee", "bet", "big", "bit", "box", "bus", "buy", "car", "cat", "cow", "cry", "cup", "cut",
    "dog", "dry", "due", "ear", "eat", "egg", "end", "eye", "far", "fat", "few", "fit", "fix", "fly", "fun", "gas",
    "guy", "hat", "hit", "hot", "ice", "ill", "job", "joy", "key", "kid", "lab", "law", "lay", "leg", "lie", "lip",
    "log", "lot", "low", "map", "mix", "net", "odd", "off", "oil", "own", "pay", "pen", "pet", "pie", "pin", "pop",
    "pot", "ran", "raw", "red", "rid", "row", "run", "sad", "sat", "sea", "set", "sit", "six", "sky", "son", "sun",
    "tax", "tea", "ten", "tie", "tip", "top", "toy", "try", "van", "war", "wet", "win", "yes", "yet", "zoo", "able",
    "back", "ball", "band", "bank", "base", "bath", "bean", "bear", "beat", "bell", "belt", "bird", "blue", "boat",
    "body", "bone", "book", "born", "both", "bowl", "burn", "busy", "cake", "call", "calm", "camp", "card", "care",
    "case", "cash", "cell", "chat", "chip", "city", "club", "coal", "coat", "code", "cold", "come", "cook", "cool",
    "copy", "corn", "cost", "crew", "crop", "dark", "data", "date", "dawn", "dead", "deal", "dear", "deep", "desk",
    "dish", "door", "down", "draw", "drop", "drum", "dust", "duty", "each", "earn", "east", "easy", "edge", "else",
    "even", "ever", "face", "fact", "fair", "fall", "farm", "fast", "fear", "feed", "feel", "feet", "file", "fill",
    "film", "find", "fine", "fire", "firm", "fish", "five", "flat", "flow", "food", "foot", "form", "four", "free",
    "from", "fuel", "full", "game", "gate", "gift", "girl", "give", "glad", "goal", "gold", "golf", "gone", "good",
];
