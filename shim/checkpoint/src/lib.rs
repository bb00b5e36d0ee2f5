//! The order of a save and of a restore, with journal and undo.
